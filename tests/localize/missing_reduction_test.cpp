#include "localize/case_for_test.h"
#include "localize/causes/cause.h"
#include "support/catch.h"

namespace ttrace::localize::missing_reduction_test {
namespace {

using test::Scene;

const std::vector<double> kReference = test::random_values(64, 1);
const std::vector<double> kPart = test::random_values(64, 2);

trace::Mesh two_by_two() { return test::make_mesh({{"dp", 2}, {"tp", 2}}); }

TEST_CASE("copies whose sum over an axis is the reference were never summed over it") {
  Scene scene(two_by_two(), kReference);
  for (const std::uint64_t rank : {0, 2}) scene.hold(rank, kPart);
  for (const std::uint64_t rank : {1, 3}) scene.hold(rank, test::minus(kReference, kPart));
  const std::vector<Cause> causes = find_missing_reduction(scene.the_case());
  REQUIRE(causes.size() == 1);
  CHECK(causes[0].name == "missing_reduction");
  CHECK(causes[0].axis == "tp");
  CHECK(causes[0].evidence.find("the sum of the copies is the reference") == 0);
  CHECK(causes[0].unexplained < 1e-7);
}

TEST_CASE("the axis is the one along which the copies differ") {
  Scene scene(two_by_two(), kReference);
  for (const std::uint64_t rank : {0, 1}) scene.hold(rank, kPart);
  for (const std::uint64_t rank : {2, 3}) scene.hold(rank, test::minus(kReference, kPart));
  const std::vector<Cause> causes = find_missing_reduction(scene.the_case());
  REQUIRE(causes.size() == 1);
  CHECK(causes[0].axis == "dp");
}

TEST_CASE("copies whose mean is the reference were never averaged") {
  Scene scene(test::make_mesh({{"dp", 2}}), kReference);
  scene.hold(0, test::times(2, kPart));
  scene.hold(1, test::times(2, test::minus(kReference, kPart)));
  const std::vector<Cause> causes = find_missing_reduction(scene.the_case());
  REQUIRE(causes.size() == 1);
  CHECK(causes[0].axis == "dp");
  CHECK(causes[0].evidence.find("the mean of the copies") == 0);
}

TEST_CASE("copies that differ by chance are no missing reduction") {
  Scene scene(two_by_two(), kReference);
  for (std::uint64_t rank = 0; rank < 4; ++rank) {
    scene.hold(rank, test::random_values(64, 10 + static_cast<std::uint32_t>(rank)));
  }
  CHECK(find_missing_reduction(scene.the_case()).empty());
}

TEST_CASE("one copy that is wrong beside a right one is no missing reduction") {
  Scene scene(test::make_mesh({{"tp", 2}}), kReference);
  scene.hold(1, kPart);
  CHECK(find_missing_reduction(scene.the_case()).empty());
}

TEST_CASE("copies that agree lack no reduction, whatever they hold") {
  Scene scene(two_by_two(), kReference);
  scene.hold_everywhere(test::times(0.5, kReference));
  CHECK(find_missing_reduction(scene.the_case()).empty());
}

TEST_CASE("integers are never reduced") {
  Scene scene(test::make_mesh({{"tp", 2}}), std::vector<double>{1, 2, 3}, tensor::DType::kInt64);
  scene.hold(0, {1, 1, 1});
  scene.hold(1, {0, 1, 2});
  CHECK(find_missing_reduction(scene.the_case()).empty());
}

TEST_CASE("copies that add up to a reference of zeros show nothing") {
  Scene scene(test::make_mesh({{"tp", 2}}), std::vector<double>(64, 0.0));
  scene.hold(0, kPart);
  scene.hold(1, test::times(-1, kPart));
  CHECK(find_missing_reduction(scene.the_case()).empty());
}

}  // namespace
}  // namespace ttrace::localize::missing_reduction_test
