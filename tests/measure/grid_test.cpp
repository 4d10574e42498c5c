#include "measure/grid.h"

#include <limits>
#include <map>

#include "base/refusal.h"
#include "measure/cpu/cpu_backend.h"
#include "property/random.h"
#include "support/catch.h"

namespace ttrace::measure::grid_test {
namespace {

using tensor::Box;
using tensor::Shape;
using test::Random;

TEST_CASE("a grid cuts all dimensions as finely as its number of cells allows") {
  CHECK(Grid::over({8192, 8192}, 256).parts() == Shape{16, 16});
  CHECK(Grid::over({8192, 4}, 256).parts() == Shape{16, 4});
  CHECK(Grid::over({64, 2, 512}, 256).parts() == Shape{8, 2, 16});
  CHECK(Grid::over({1000000}, 256).parts() == Shape{16});
  CHECK(Grid::over({}, 256).parts().empty());
  CHECK(Grid::over({0, 5}, 256).cells() == 1);
  CHECK(Grid::over({8192, 8192}, 1).cells() == 1);
}

TEST_CASE("cells are not smaller than what has a noise of its own") {
  CHECK(Grid::over({64}, 256).cells() == 1);
  CHECK(Grid::over({128}, 256).cells() == 2);
  CHECK(Grid::over({32, 32}, 256).cells() == 16);
}

TEST_CASE("cells are as even as they come and together the whole") {
  const Grid grid({10, 7}, {4, 2});
  CHECK(grid.cell(0) == Box{{0, 0}, {2, 3}});
  CHECK(grid.cell(3) == Box{{2, 3}, {3, 4}});
  CHECK(grid.cell(7) == Box{{7, 3}, {3, 4}});
  std::uint64_t elements = 0;
  for (std::size_t i = 0; i < grid.cells(); ++i) elements += tensor::volume(grid.cell(i));
  CHECK(elements == 70);
}

TEST_CASE("what is no grid is refused") {
  for (const Shape& parts : std::vector<Shape>{{0, 1}, {11, 1}, {1}, {1, 1, 1}}) {
    test::check_refused([&] { Grid({10, 7}, parts); }, {"[10, 7]"});
  }
  test::check_refused([] { Grid({100}, {17}); }, {"1 to 16 parts"});
}

Shape random_shape(Random& random) {
  Shape shape(random.between(0, 3));
  for (std::uint64_t& extent : shape) extent = random.between(1, 12);
  return shape;
}

TEST_CASE("runs and overlaps agree with a walk over single elements") {
  Random random(5);
  for (int round = 0; round < 300; ++round) {
    const Shape shape = random_shape(random);
    Shape parts;
    Box box{Shape(shape.size()), Shape(shape.size())};
    for (std::size_t d = 0; d < shape.size(); ++d) {
      parts.push_back(random.between(1, shape[d]));
      box.origin[d] = random.between(0, shape[d] - 1);
      box.extent[d] = random.between(1, shape[d] - box.origin[d]);
    }
    const Grid grid(shape, parts);
    std::vector<std::size_t> owner(tensor::volume(tensor::whole(shape)));
    for (std::size_t cell = 0; cell < grid.cells(); ++cell) {
      tensor::for_each_sub_box(grid.cell(cell), 1, [&](const Box& one) {
        owner[tensor::position(shape, one.origin)] = cell;
      });
    }
    std::vector<std::size_t> expected;
    std::map<std::size_t, double> inside;
    tensor::for_each_sub_box(box, 1, [&](const Box& one) {
      const std::size_t cell = owner[tensor::position(shape, one.origin)];
      expected.push_back(cell);
      inside[cell] += 1;
    });
    std::vector<std::size_t> found(expected.size(), grid.cells());
    grid.for_each_part(box, [&](std::size_t cell, const Box& part) {
      tensor::for_each_sub_box(part, 1, [&](const Box& one) {
        found[tensor::position(box.extent, tensor::relative_to(one, box.origin).origin)] = cell;
      });
    });
    CHECK(found == expected);
    std::map<std::size_t, double> shares;
    grid.for_each_overlap(box, [&](std::size_t cell, double share) {
      shares[cell] = share * static_cast<double>(tensor::volume(grid.cell(cell)));
    });
    REQUIRE(shares.size() == inside.size());
    for (const auto& [cell, count] : inside) CHECK(shares.at(cell) == Catch::Approx(count));
  }
}

TEST_CASE("an empty box has no cells and no overlaps") {
  const Grid grid({4, 4}, {2, 2});
  const Box empty{{1, 1}, {0, 3}};
  grid.for_each_part(empty, [](auto, const Box&) { FAIL("a cell"); });
  grid.for_each_overlap(empty, [](auto, auto) { FAIL("an overlap"); });
}

TEST_CASE("values that are not finite make their cell infinite, or count nothing if equal") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double inf = std::numeric_limits<double>::infinity();
  CellSums equal;
  equal.add(box_stats({{0}, {2}}, {{nan, 2}}, {{nan, 5}}));
  CHECK(equal.d2 == 9);
  CHECK(equal.a2 == 4);
  CellSums different;
  different.add(box_stats({{2}, {2}}, {{3, inf}}, {{3, -inf}}));
  CHECK(different.d2 == inf);
  CHECK(different.a2 == 9);
}

}  // namespace
}  // namespace ttrace::measure::grid_test
