#include "diagnosis/cause.h"

#include <algorithm>

#include "base/error.h"
#include "diagnosis/case_for_test.h"
#include "support/catch.h"

namespace ttrace::diagnosis {
namespace {

using test::Scene;

const std::vector<double> kReference = test::random_values(64, 1);

TEST_CASE("a random difference has no known cause") {
  Scene random(test::make_mesh({{"tp", 2}}), kReference);
  random.hold_everywhere(test::random_values(64, 2));
  CHECK(find_causes(random.the_case()).empty());
}

TEST_CASE("the finders' causes come together, the one that leaves least over first") {
  Scene scaled(test::make_mesh({{"tp", 2}}), kReference);
  scaled.hold_everywhere(test::times(0.5, kReference));
  const auto causes = find_causes(scaled.the_case());
  REQUIRE(causes.size() == 1);
  CHECK(causes[0].name == "scaled");
  CHECK(causes[0].axis == "tp");

  Scene partial(test::make_mesh({{"dp", 2}, {"tp", 2}}), kReference);
  const std::vector<double> part = test::random_values(64, 2);
  for (const std::uint64_t rank : {0, 1, 2, 3}) {
    partial.hold(rank, rank % 2 == 0 ? part : test::minus(kReference, part));
  }
  const auto reductions = find_causes(partial.the_case());
  REQUIRE_FALSE(reductions.empty());
  CHECK(reductions[0].name == "missing_reduction");
  CHECK(std::is_sorted(reductions.begin(), reductions.end(), [](const Cause& a, const Cause& b) {
    return a.unexplained < b.unexplained;
  }));
}

TEST_CASE("a rank that is lost between two looks is an input error") {
  Scene scene(test::make_mesh({{"tp", 2}}), kReference);
  scene.hold(1, test::minus(kReference, test::random_values(64, 2)));
  Case the_case = scene.the_case();
  test::MemoryTrace lost(test::make_mesh({{"tp", 2}}));
  lost.lose_rank(0);
  the_case.candidate.source = &lost;
  CHECK_THROWS_AS(find_causes(the_case), base::Error);
}

}  // namespace
}  // namespace ttrace::diagnosis
