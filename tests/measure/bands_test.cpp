#include <algorithm>
#include <map>

#include "measure/sections.h"
#include "property/random.h"

namespace ttrace::measure {
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
      tensor::for_each_sub_box(
          part, 1, [&](const Box& one) { owner[tensor::position(shape, one.origin)] = region; });
    }
    const std::uint64_t limit = random.between(1, 40);
    std::uint64_t next = 0;
    std::map<std::uint64_t, std::size_t> found;
    const auto check_band = [&](const Box& band, const std::vector<Piece>& pieces) {
      CHECK(tensor::position(shape, band.origin) == next);
      CHECK(tensor::volume(band) <=
            limit * std::min<std::uint64_t>(parts.size(), kMostTimesLarger));
      next += tensor::volume(band);
      std::size_t region = 0;
      for (const Piece& piece : pieces) {
        CHECK(piece.region >= region);
        region = piece.region;
        CHECK(tensor::intersect(piece.box, band) == piece.box);
        tensor::for_each_sub_box(piece.box, 1, [&](const Box& one) {
          CHECK(found.emplace(tensor::position(shape, one.origin), piece.region).second);
        });
      }
    };
    // Section by section, as several threads go through a large tensor.
    tensor::for_each_sub_box(tensor::whole(shape), random.between(1, 200), [&](const Box& section) {
      for_each_band(shape, section, regions, limit, check_band);
    });
    CHECK(next == tensor::volume(tensor::whole(shape)));
    CHECK(found == owner);
  }
}

TEST_CASE("bands are larger where several regions share one", "[bands]") {
  const auto bands_of = [](const std::vector<Box>& boxes) {
    std::vector<Region> regions;
    for (const Box& box : boxes) regions.push_back({{box}, {regions.size()}, ""});
    std::vector<std::uint64_t> volumes;
    for_each_band({64, 12}, tensor::whole({64, 12}), regions, 24,
                  [&](const Box& band, const std::vector<Piece>&) {
                    volumes.push_back(tensor::volume(band));
                  });
    return volumes;
  };
  using Volumes = std::vector<std::uint64_t>;
  CHECK(bands_of({{{0, 0}, {64, 12}}}) == Volumes(32, 24));
  CHECK(bands_of({{{0, 0}, {32, 12}}, {{32, 0}, {32, 12}}}) == Volumes(32, 24));
  CHECK(bands_of({{{0, 0}, {64, 6}}, {{0, 6}, {64, 6}}}) == Volumes(16, 48));
  std::vector<Box> columns;
  for (std::uint64_t column = 0; column < 12; ++column) columns.push_back({{0, column}, {64, 1}});
  CHECK(bands_of(columns) == Volumes(8, 96));
}

TEST_CASE("an empty tensor has no bands", "[bands]") {
  for_each_band({3, 0}, tensor::whole({3, 0}), {Region{{{{0, 0}, {3, 0}}}, {0}, ""}}, 8,
                [](const Box&, const std::vector<Piece>&) { FAIL("a band"); });
}

}  // namespace
}  // namespace ttrace::measure
