#include <cmath>

#include "comparison/result.h"
#include "report/sample_report.h"
#include "support/catch.h"

namespace ttrace::comparison {
namespace {

TEST_CASE("verdicts have names and the exit codes of the contract") {
  CHECK(verdict_name(Verdict::kMatch) == "match");
  CHECK(verdict_name(Verdict::kDiverged) == "diverged");
  CHECK(verdict_name(Verdict::kInconclusive) == "inconclusive");
  CHECK(exit_code(Verdict::kMatch) == 0);
  CHECK(exit_code(Verdict::kDiverged) == 1);
  CHECK(exit_code(Verdict::kInconclusive) == 3);
}

TEST_CASE("the relative error is that of the norms") {
  CHECK(relative_error(report::test::compared("a", {3, 4}, {3, 4.5}).comparison->measurement) ==
        Catch::Approx(0.1));
  CHECK(relative_error(report::test::compared("a", {0, 0}, {0, 0}).comparison->measurement) == 0);
  CHECK(std::isinf(
      relative_error(report::test::compared("a", {0, 0}, {0, 1}).comparison->measurement)));
}

TEST_CASE("the used share is that of the tolerance") {
  Comparison comparison = *report::test::compared("a", {3, 4}, {3, 4.5}).comparison;
  comparison.tolerance.unit_norm = 0.25;
  CHECK(used_share(comparison) == Catch::Approx(0.125));
  comparison.tolerance.unit_norm = 0;
  CHECK(std::isinf(used_share(comparison)));
  CHECK(used_share(*report::test::compared("a", {0}, {0}).comparison) == 0);
}

}  // namespace
}  // namespace ttrace::comparison
