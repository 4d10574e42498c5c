#include "measure/replica_check.h"

#include <limits>

#include "support/catch.h"

namespace ttrace::measure {
namespace {

using Classes = std::vector<std::vector<std::uint64_t>>;

std::vector<std::byte> bits(int value) { return {static_cast<std::byte>(value), std::byte{0}}; }

TEST_CASE("replicas that agree are one class") {
  ReplicaCheck check({4, 5, 6});
  check.add_equal(1);
  check.add_equal(2);
  check.finish_box();
  CHECK(check.all_equal());
  CHECK(check.replicas() == 3);
  CHECK(check.classes() == Classes{{4, 5, 6}});
  CHECK(check.squared_distances() == std::vector<double>{0, 0, 0});
}

TEST_CASE("nothing read yet is agreement") {
  const ReplicaCheck check({1, 2});
  CHECK(check.all_equal());
  CHECK(check.classes() == Classes{{1, 2}});
}

TEST_CASE("replicas that differ from the first may agree with each other") {
  ReplicaCheck check({0, 1, 2, 3, 4});
  check.add_different(1, 4, bits(1));
  check.add_equal(2);
  check.add_different(3, 4, bits(1));
  check.add_different(4, 9, bits(2));
  check.finish_box();
  CHECK_FALSE(check.all_equal());
  CHECK(check.classes() == Classes{{0, 2}, {1, 3}, {4}});
  CHECK(check.squared_distances() == std::vector<double>{0, 4, 0, 4, 9});
}

TEST_CASE("classes only split from box to box and distances add up") {
  ReplicaCheck check({0, 1, 2, 3});
  check.add_different(1, 1, bits(1));
  check.add_different(2, 1, bits(1));
  check.add_equal(3);
  check.finish_box();
  CHECK(check.classes() == Classes{{0, 3}, {1, 2}});
  check.add_equal(1);
  check.add_different(2, 2, bits(5));  // leaves 1, with which it agreed before
  check.add_equal(3);
  check.finish_box();
  CHECK(check.classes() == Classes{{0, 3}, {1}, {2}});
  check.add_equal(1);
  check.add_equal(2);
  check.add_different(3, 7, bits(5));
  check.finish_box();
  CHECK(check.classes() == Classes{{0}, {1}, {2}, {3}});
  CHECK(check.squared_distances() == std::vector<double>{0, 1, 3, 7});
}

TEST_CASE("replicas that agree in one box and not in another are different") {
  ReplicaCheck check({0, 1, 2});
  check.add_different(1, 1, bits(1));
  check.add_equal(2);
  check.finish_box();
  check.add_equal(1);
  check.add_different(2, 1, bits(1));  // the same bits as rank 1 had, in another box
  check.finish_box();
  CHECK(check.classes() == Classes{{0}, {1}, {2}});
}

TEST_CASE("other bits of the same numbers are no difference") {
  ReplicaCheck check({0, 1});
  check.add_different(1, 0, bits(1));
  check.finish_box();
  CHECK(check.all_equal());
  CHECK(check.classes() == Classes{{0, 1}});
}

TEST_CASE("an infinite distance stays infinite") {
  ReplicaCheck check({0, 1});
  check.add_different(1, std::numeric_limits<double>::infinity(), bits(1));
  check.finish_box();
  check.add_different(1, 1, bits(1));
  check.finish_box();
  CHECK(check.squared_distances()[1] == std::numeric_limits<double>::infinity());
}

TEST_CASE("checks of two parts of one block are the check of both") {
  ReplicaCheck first({0, 1, 2, 3});
  first.add_different(1, 4, bits(1));
  first.add_equal(2);
  first.add_different(3, 4, bits(1));
  first.finish_box();
  ReplicaCheck second({0, 1, 2, 3});
  second.add_equal(1);
  second.add_different(2, 1, bits(1));
  second.add_equal(3);
  second.finish_box();
  ReplicaCheck both = first;
  both.merge(second);
  CHECK(both.classes() == Classes{{0}, {1, 3}, {2}});
  CHECK(both.squared_distances() == std::vector<double>{0, 4, 1, 4});
  both.merge(ReplicaCheck({0, 1, 2, 3}));
  CHECK(both.classes() == Classes{{0}, {1, 3}, {2}});
}

}  // namespace
}  // namespace ttrace::measure
