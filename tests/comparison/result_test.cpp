#include "comparison/result.h"

#include "support/catch.h"

namespace ttrace::comparison::result_test {
namespace {

TEST_CASE("verdicts have names and the exit codes of the contract") {
  CHECK(verdict_name(Verdict::kMatch) == "match");
  CHECK(verdict_name(Verdict::kDiverged) == "diverged");
  CHECK(verdict_name(Verdict::kInconclusive) == "inconclusive");
  CHECK(exit_code(Verdict::kMatch) == 0);
  CHECK(exit_code(Verdict::kDiverged) == 1);
  CHECK(exit_code(Verdict::kInconclusive) == 3);
}

}  // namespace
}  // namespace ttrace::comparison::result_test
