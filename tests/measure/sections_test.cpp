#include "measure/sections.h"

#include "support/catch.h"

namespace ttrace::measure {
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

}  // namespace
}  // namespace ttrace::measure
