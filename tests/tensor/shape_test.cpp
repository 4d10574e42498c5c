#include "tensor/shape.h"

#include <map>
#include <random>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "support/catch.h"

namespace ttrace::tensor::shape_test {
namespace {

using List = std::vector<std::uint64_t>;

List list_of(const Shape& shape) { return {shape.begin(), shape.end()}; }

List counting(std::size_t count) {
  List list;
  while (list.size() < count) list.push_back(10 + list.size());
  return list;
}

TEST_CASE("a shape is small, and moving it cannot fail") {
  STATIC_REQUIRE(sizeof(Shape) == 32);
  STATIC_REQUIRE(std::is_nothrow_move_constructible_v<Shape>);
  STATIC_REQUIRE(std::is_nothrow_move_assignable_v<Shape>);
  STATIC_REQUIRE(std::is_nothrow_swappable_v<Shape>);
}

TEST_CASE("a shape is made of the same arguments as a vector") {
  CHECK(Shape().empty());
  CHECK(list_of(Shape(2)) == List{0, 0});
  CHECK(list_of(Shape(5, 7)) == List{7, 7, 7, 7, 7});
  CHECK(list_of(Shape{5, 7}) == List{5, 7});
  const List five = counting(5);
  CHECK(list_of(Shape(five)) == five);
  CHECK(list_of(Shape(five.begin() + 1, five.end())) == List{11, 12, 13, 14});
}

TEST_CASE("a copy is apart from its original, inside and on the heap") {
  for (const std::size_t count : {0, 1, 3, 4, 9}) {
    const List list = counting(count);
    Shape original(list);
    Shape copy = original;
    copy.push_back(1);
    CHECK(list_of(original) == list);
    original = copy;
    CHECK(original == copy);
    const Shape& itself = original;
    original = itself;
    CHECK(original == copy);
  }
}

TEST_CASE("a moved-from shape is empty and can be used again") {
  for (const std::size_t count : {0, 1, 3, 4, 9}) {
    const List list = counting(count);
    Shape from(list);
    Shape to = std::move(from);
    CHECK(list_of(to) == list);
    CHECK(from.empty());
    from.assign(6, 2);
    to = std::move(from);
    CHECK(list_of(to) == List(6, 2));
    CHECK(from.empty());
    from = {4, 5};
    std::swap(from, to);
    CHECK(list_of(to) == List{4, 5});
    CHECK(list_of(from) == List(6, 2));
    Shape& itself = from;
    from = std::move(itself);
    CHECK(list_of(from) == List(6, 2));
  }
}

TEST_CASE("shapes are ordered as lists are") {
  const std::vector<List> lists{{}, {0}, {1}, {1, 0}, {1, 2, 3}, {1, 2, 3, 4}, {1, 2, 4}, {2}};
  for (const List& a : lists) {
    for (const List& b : lists) {
      CHECK((Shape(a) == Shape(b)) == (a == b));
      CHECK((Shape(a) <=> Shape(b)) == (a <=> b));
    }
  }
}

TEST_CASE("what lies beyond a shape is refused by at()") {
  const Shape shape{3};
  CHECK(shape.at(0) == 3);
  CHECK_THROWS_AS(shape.at(1), std::out_of_range);
  CHECK_THROWS_AS(Shape().at(0), std::out_of_range);
  CHECK_THROWS_AS(Shape().reserve(std::size_t{1} << 32), std::length_error);
}

// Does the same random thing to a shape and to a vector.
class Twins {
 public:
  explicit Twins(unsigned seed) : random_(seed) {}

  void step() {
    const std::size_t size = list_.size();
    const std::size_t at = below(size + 1);
    switch (below(12)) {
      case 0:
        return grow();
      case 1:
        return grow();
      case 2:
        if (size > 0) shape_.pop_back(), list_.pop_back();
        return;
      case 3: {
        const std::size_t count = below(8);
        shape_.resize(count, at), list_.resize(count, at);
        return;
      }
      case 4: {
        const List more = counting(below(4));
        shape_.insert(shape_.begin() + signed_of(at), more.begin(), more.end());
        list_.insert(list_.begin() + signed_of(at), more.begin(), more.end());
        return;
      }
      case 5: {
        const auto place = shape_.insert(shape_.begin() + signed_of(at), 99);
        CHECK(place - shape_.begin() == signed_of(at));
        list_.insert(list_.begin() + signed_of(at), 99);
        return;
      }
      case 6: {
        const std::size_t first = below(at + 1);
        shape_.erase(shape_.begin() + signed_of(first), shape_.begin() + signed_of(at));
        list_.erase(list_.begin() + signed_of(first), list_.begin() + signed_of(at));
        return;
      }
      case 7:
        if (size == 0) return;
        shape_.front() += 1, list_.front() += 1;
        shape_.back() += 2, list_.back() += 2;
        shape_[at % size] += 3, list_[at % size] += 3;
        return;
      case 8: {
        const Shape copy = shape_;
        shape_ = copy;
        return;
      }
      case 9: {
        Shape moved = std::move(shape_);
        shape_ = std::move(moved);
        return;
      }
      case 10: {
        const std::size_t count = below(7);
        shape_.assign(count, at), list_.assign(count, at);
        return;
      }
      default:
        shape_.reserve(below(10));
    }
  }

  void check() const {
    REQUIRE(list_of(shape_) == list_);
    REQUIRE(List(shape_.rbegin(), shape_.rend()) == List(list_.rbegin(), list_.rend()));
    REQUIRE(shape_.empty() == list_.empty());
    REQUIRE(shape_ == Shape(list_));
  }

 private:
  void grow() {
    const std::uint64_t extent = below(1000);
    shape_.push_back(extent), list_.push_back(extent);
  }
  std::size_t below(std::size_t limit) { return random_() % limit; }
  static std::ptrdiff_t signed_of(std::size_t i) { return static_cast<std::ptrdiff_t>(i); }

  std::mt19937 random_;
  Shape shape_;
  List list_;
};

TEST_CASE("a shape has what a vector has after the same changes") {
  for (unsigned seed = 0; seed < 50; ++seed) {
    Twins twins(seed);
    for (int i = 0; i < 200; ++i) {
      twins.step();
      twins.check();
    }
  }
}

}  // namespace
}  // namespace ttrace::tensor::shape_test
