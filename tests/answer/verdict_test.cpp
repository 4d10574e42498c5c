#include "answer/verdict.h"

#include "support/catch.h"

namespace ttrace::answer::verdict_test {
namespace {

TEST_CASE("verdicts have the words of their command and the exit codes of the contract") {
  constexpr VerdictWords kWords{"match", "diverged"};
  CHECK(kWords.of(Verdict::kRight) == "match");
  CHECK(kWords.of(Verdict::kWrong) == "diverged");
  CHECK(kWords.of(Verdict::kInconclusive) == "inconclusive");
  CHECK(exit_code(Verdict::kRight) == 0);
  CHECK(exit_code(Verdict::kWrong) == 1);
  CHECK(exit_code(Verdict::kInconclusive) == 3);
}

}  // namespace
}  // namespace ttrace::answer::verdict_test
