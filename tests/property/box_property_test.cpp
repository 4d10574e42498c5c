// Boxes of random shapes, held against loops over single elements.
#include <algorithm>
#include <vector>

#include "property/random.h"
#include "tensor/box.h"

namespace ttrace::tensor::box_property_test {
namespace {

using test::for_seeds;
using test::Random;

bool inside(const Box& box, const Shape& point) {
  for (std::size_t d = 0; d < point.size(); ++d) {
    if (point[d] < box.origin[d] || point[d] - box.origin[d] >= box.extent[d]) return false;
  }
  return true;
}

// All points of a box in row-major order, by counting up the last coordinate and carrying.
std::vector<Shape> points_of(const Box& box) {
  std::vector<Shape> points;
  if (std::find(box.extent.begin(), box.extent.end(), 0) != box.extent.end()) return points;
  Shape point = box.origin;
  while (true) {
    points.push_back(point);
    std::size_t d = point.size();
    while (d > 0 && ++point[d - 1] == box.origin[d - 1] + box.extent[d - 1]) {
      --d;
      point[d] = box.origin[d];
    }
    if (d == 0) return points;
  }
}

Box random_box(Random& random) { return random.box_in(whole(random.shape(4, 0, 7))); }

TEST_CASE("slabs of random boxes cover every element once in order") {
  for_seeds(2000, [](Random& random) {
    const Box box = random_box(random);
    const std::uint64_t limit = random.between(1, 40);
    CAPTURE(to_string(box), limit);
    std::vector<Shape> visited;
    bool small_enough = true;
    for_each_sub_box(box, limit, [&](const Box& slab) {
      small_enough = small_enough && volume(slab) <= limit && !empty(slab);
      const std::vector<Shape> points = points_of(slab);
      visited.insert(visited.end(), points.begin(), points.end());
    });
    CHECK(small_enough);
    // Equal to the row-major enumeration: covered once, contiguous and in order, all in one.
    CHECK((visited == points_of(box)));
  });
}

TEST_CASE("coordinates of random boxes enumerate their points") {
  for_seeds(500, [](Random& random) {
    const Box box = random_box(random);
    CAPTURE(to_string(box));
    const std::vector<Shape> points = points_of(box);
    CHECK(volume(box) == points.size());
    CHECK(empty(box) == points.empty());
    bool same = true;
    for (std::size_t i = 0; i < points.size(); ++i) {
      same = same && coordinates(box, i) == points[i];
    }
    CHECK(same);
  });
}

TEST_CASE("random boxes intersect in the points of both") {
  for_seeds(1000, [](Random& random) {
    const Box frame = whole(random.shape(3, 1, 6));
    const Box a = random.box_in(frame);
    const Box b = random.box_in(frame);
    CAPTURE(to_string(a), to_string(b));
    std::vector<Shape> both;
    for (const Shape& point : points_of(a)) {
      if (inside(b, point)) both.push_back(point);
    }
    const auto common = intersect(a, b);
    CHECK(common == intersect(b, a));
    REQUIRE(common.has_value() == !both.empty());
    if (common) CHECK((points_of(*common) == both));
  });
}

template <typename Element>
void check_copy(Random& random) {
  const Box frame = whole(random.shape(4, 1, 5));
  const Box from_box = random.box_in(frame);
  const Box to_box = random.box_in(frame);
  CAPTURE(to_string(from_box), to_string(to_box));
  const std::vector<Shape> from_points = points_of(from_box);
  const std::vector<Shape> to_points = points_of(to_box);
  std::vector<Element> from(from_points.size());
  for (Element& element : from) element = static_cast<Element>(random.bits());
  std::vector<Element> to(to_points.size());
  for (Element& element : to) element = static_cast<Element>(random.bits());
  std::vector<Element> expected = to;
  for (std::size_t i = 0; i < from.size(); ++i) {
    const auto at = std::find(to_points.begin(), to_points.end(), from_points[i]);
    if (at != to_points.end()) expected[static_cast<std::size_t>(at - to_points.begin())] = from[i];
  }
  copy_common(from_box, std::as_bytes(std::span(from)), to_box,
              std::as_writable_bytes(std::span(to)), sizeof(Element));
  CHECK(to == expected);
}

TEST_CASE("copy_common between random boxes equals a loop over elements") {
  for_seeds(400, check_copy<std::uint8_t>);
  for_seeds(400, check_copy<std::uint16_t>);
  for_seeds(400, check_copy<std::uint64_t>);
}

}  // namespace
}  // namespace ttrace::tensor::box_property_test
