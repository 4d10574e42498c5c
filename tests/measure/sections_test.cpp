#include "measure/sections.h"

#include <algorithm>
#include <map>

#include "property/random.h"
#include "support/catch.h"

namespace ttrace::measure::sections_test {
namespace {

TEST_CASE("sections make up the tensor in its order and are never too many", "[sections]") {
  const std::vector<tensor::Shape> shapes = {{},
                                             {0},
                                             {3, 0},
                                             {7},
                                             {kSectionElements},
                                             {kSectionElements + 1},
                                             {5, kSectionElements / 2 + 1},
                                             {3, kSectionElements * 2 + 5},
                                             {1U << 20, 1U << 20},
                                             {std::uint64_t{1} << 62},
                                             {3, std::uint64_t{1} << 60}};
  for (const tensor::Shape& shape : shapes) {
    CAPTURE(shape);
    const std::vector<tensor::Box> sections = sections_of(shape);
    CHECK(!sections.empty());
    CHECK(sections.size() <= kMostSections);
    std::uint64_t next = 0;
    for (const tensor::Box& section : sections) {
      if (tensor::empty(section)) continue;
      CHECK(tensor::position(shape, section.origin) == next);
      next += tensor::volume(section);
    }
    CHECK(next == tensor::volume(tensor::whole(shape)));
  }
}

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

TEST_CASE("boxes that are read follow each other, and their parts are all that each rank has",
          "[reads]") {
  const std::uint64_t first_seed = test::base_seed();
  for (std::uint64_t seed = first_seed; seed < first_seed + 300; ++seed) {
    CAPTURE(seed);
    test::Random random(seed);
    const tensor::Shape shape = random.shape(4, 1, 7);
    std::vector<Box> parts;
    cut(random, tensor::whole(shape), static_cast<int>(random.between(0, 4)), parts);
    std::vector<RankBoxes> owners(random.between(1, parts.size()));
    std::map<std::uint64_t, std::size_t> owner_of;
    for (const Box& part : parts) {
      const std::size_t owner = random.between(0, owners.size() - 1);
      owners[owner].boxes.push_back(part);
      tensor::for_each_sub_box(
          part, 1, [&](const Box& one) { owner_of[tensor::position(shape, one.origin)] = owner; });
    }
    const std::uint64_t limit = random.between(1, 40);
    std::uint64_t next = 0;
    std::map<std::uint64_t, std::size_t> found;
    const auto check_read = [&](const Box& read, const std::vector<OwnedBox>& held) {
      CHECK(tensor::position(shape, read.origin) == next);
      CHECK(tensor::volume(read) <=
            limit * std::min<std::uint64_t>(parts.size(), kMostTimesLarger));
      next += tensor::volume(read);
      std::size_t owner = 0;
      for (const OwnedBox& part : held) {
        CHECK(part.owner >= owner);
        owner = part.owner;
        CHECK(tensor::intersect(part.box, read) == part.box);
        tensor::for_each_sub_box(part.box, 1, [&](const Box& one) {
          CHECK(found.emplace(tensor::position(shape, one.origin), part.owner).second);
        });
      }
    };
    // Section by section, as several threads go through a large tensor.
    tensor::for_each_sub_box(tensor::whole(shape), random.between(1, 200), [&](const Box& section) {
      for_each_read(shape, section, owners, limit, check_read);
    });
    CHECK(next == tensor::volume(tensor::whole(shape)));
    CHECK(found == owner_of);
  }
}

TEST_CASE("more is read at once where several owners share a box", "[reads]") {
  const auto volumes_of = [](const std::vector<Box>& boxes) {
    std::vector<RankBoxes> owners;
    for (const Box& box : boxes) owners.push_back({{box}, {owners.size()}, ""});
    std::vector<std::uint64_t> volumes;
    for_each_read({64, 12}, tensor::whole({64, 12}), owners, 24,
                  [&](const Box& read, const std::vector<OwnedBox>&) {
                    volumes.push_back(tensor::volume(read));
                  });
    return volumes;
  };
  using Volumes = std::vector<std::uint64_t>;
  CHECK(volumes_of({{{0, 0}, {64, 12}}}) == Volumes(32, 24));
  CHECK(volumes_of({{{0, 0}, {32, 12}}, {{32, 0}, {32, 12}}}) == Volumes(32, 24));
  CHECK(volumes_of({{{0, 0}, {64, 6}}, {{0, 6}, {64, 6}}}) == Volumes(16, 48));
  std::vector<Box> columns;
  for (std::uint64_t column = 0; column < 12; ++column) columns.push_back({{0, column}, {64, 1}});
  CHECK(volumes_of(columns) == Volumes(8, 96));
}

TEST_CASE("of an empty tensor nothing is read", "[reads]") {
  for_each_read({3, 0}, tensor::whole({3, 0}), {RankBoxes{{{{0, 0}, {3, 0}}}, {0}, ""}}, 8,
                [](const Box&, const std::vector<OwnedBox>&) { FAIL("a read"); });
}

}  // namespace
}  // namespace ttrace::measure::sections_test
