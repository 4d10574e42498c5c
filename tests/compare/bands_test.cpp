#include "compare/bands.h"

#include <map>

#include "property/random.h"

namespace ttrace::compare {
namespace {

using tensor::Box;

// Cuts `box` into two along a random dimension, again and again.
void cut(test::Random& random, const Box& box, int depth, std::vector<Box>& parts) {
  const std::size_t dims = box.extent.size();
  const std::size_t d = dims == 0 ? 0 : random.between(0, dims - 1);
  if (depth == 0 || dims == 0 || box.extent[d] < 2) return parts.push_back(box);
  Box first = box;
  Box second = box;
  first.extent[d] = random.between(1, box.extent[d] - 1);
  second.origin[d] += first.extent[d];
  second.extent[d] -= first.extent[d];
  cut(random, first, depth - 1, parts);
  cut(random, second, depth - 1, parts);
}

TEST_CASE("bands follow each other, and their pieces are all there is of every region", "[bands]") {
  const std::uint64_t first_seed = test::base_seed();
  for (std::uint64_t seed = first_seed; seed < first_seed + 300; ++seed) {
    CAPTURE(seed);
    test::Random random(seed);
    const tensor::Shape shape = random.shape(4, 1, 7);
    std::vector<Box> parts;
    cut(random, tensor::whole(shape), static_cast<int>(random.between(0, 4)), parts);
    std::vector<Region> regions(random.between(1, parts.size()));
    std::map<std::uint64_t, std::size_t> owner;
    for (const Box& part : parts) {
      const std::size_t region = random.between(0, regions.size() - 1);
      regions[region].boxes.push_back(part);
      tensor::for_each_slab(
          part, 1, [&](const Box& one) { owner[tensor::position(shape, one.origin)] = region; });
    }
    const std::uint64_t limit = random.between(1, 40);
    std::uint64_t next = 0;
    std::map<std::uint64_t, std::size_t> found;
    const auto check_band = [&](const Box& band, const std::vector<Piece>& pieces) {
      CHECK(tensor::position(shape, band.origin) == next);
      CHECK(tensor::volume(band) <= limit);
      next += tensor::volume(band);
      std::size_t region = 0;
      for (const Piece& piece : pieces) {
        CHECK(piece.region >= region);
        region = piece.region;
        CHECK(tensor::intersect(piece.box, band) == piece.box);
        tensor::for_each_slab(piece.box, 1, [&](const Box& one) {
          CHECK(found.emplace(tensor::position(shape, one.origin), piece.region).second);
        });
      }
    };
    // Section by section, as several threads go through a large tensor.
    tensor::for_each_slab(tensor::whole(shape), random.between(1, 200), [&](const Box& section) {
      for_each_band(shape, section, regions, limit, check_band);
    });
    CHECK(next == tensor::volume(tensor::whole(shape)));
    CHECK(found == owner);
  }
}

TEST_CASE("an empty tensor has no bands", "[bands]") {
  for_each_band({3, 0}, tensor::whole({3, 0}), {Region{{{{0, 0}, {3, 0}}}, {0}, ""}}, 8,
                [](const Box&, const std::vector<Piece>&) { FAIL("a band"); });
}

}  // namespace
}  // namespace ttrace::compare
