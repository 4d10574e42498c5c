#include "localize/causes/cause.h"

#include <algorithm>
#include <cmath>
#include <variant>

#include "base/error.h"
#include "localize/case_for_test.h"
#include "support/catch.h"

namespace ttrace::localize::cause_test {
namespace {

using test::Scene;

const std::vector<double> kReference = test::random_values(64, 1);

TEST_CASE("a random difference has no known cause") {
  Scene random(test::make_mesh({{"tp", 2}}), kReference);
  random.hold_everywhere(test::random_values(64, 2));
  CHECK(find_causes(random.the_case()).empty());
}

TEST_CASE("all finders are asked") {
  Scene scaled(test::make_mesh({{"tp", 2}}), kReference);
  scaled.hold_everywhere(test::times(0.5, kReference));
  Case the_case = scaled.the_case();
  the_case.reduced_over = {{"tp", "its param_grad is a partial sum over tp"}};
  const auto causes = find_causes(the_case);
  REQUIRE(causes.size() == 1);
  CHECK(causes[0].name == "scaled");
  CHECK(causes[0].axis == "tp");
}

TEST_CASE("of several causes the one that leaves least over comes first") {
  Scene scene(test::make_mesh({{"dp", 2}, {"tp", 2}}), kReference);
  const std::vector<double> part = test::random_values(64, 2);
  // Over tp the copies add up exactly; over dp but for one rounding, which is allowed.
  std::vector<double> nearly = test::minus(kReference, part);
  nearly[0] += 0x1p-22;
  scene.hold(0, part);
  scene.hold(1, test::minus(kReference, part));
  scene.hold(2, nearly);
  scene.hold(3, part);
  const auto causes = find_causes(scene.the_case());
  REQUIRE(causes.size() == 2);
  CHECK(causes[0].axis == "tp");
  CHECK(causes[1].axis == "dp");
  CHECK(causes[0].unexplained < causes[1].unexplained);
}

TEST_CASE("where a run is judged by itself, no evidence speaks of a reference") {
  std::vector<double> not_a_number = kReference;
  not_a_number[5] = std::nan("");
  std::vector<double> half_twice = kReference;
  std::copy_n(kReference.begin(), 32, half_twice.begin() + 32);
  const auto has = [](const std::string& text, const char* words) {
    return text.find(words) != std::string::npos;
  };
  for (const auto& candidate :
       {test::times(0.5, kReference), std::vector<double>(64, 0.0), not_a_number, half_twice}) {
    Scene scene(test::make_mesh({{"tp", 2}}), kReference);
    scene.hold_everywhere(candidate);
    Case the_case = scene.the_case();
    for (const bool is_expected_value : {false, true}) {
      the_case.is_expected_value = is_expected_value;
      const std::vector<Cause> causes = find_causes(the_case);
      REQUIRE(causes.size() == 1);
      CAPTURE(causes[0].evidence);
      CHECK(has(causes[0].evidence, "the expected value") == is_expected_value);
      CHECK(has(causes[0].evidence, "the reference") != is_expected_value);
      for (const auto& [name, value] : causes[0].values) {
        const auto* const text = std::get_if<std::string>(&value);
        if (text != nullptr && is_expected_value) CHECK_FALSE(has(*text, "the reference"));
        if (name == "reference") CHECK(is_expected_value);
      }
    }
  }
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
}  // namespace ttrace::localize::cause_test
