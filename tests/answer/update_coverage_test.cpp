#include "answer/update_coverage.h"

#include "support/catch.h"

namespace ttrace::answer::update_coverage_test {
namespace {

UpdateCoverage counted(int parameters, int unjudged) {
  UpdateCount count;
  for (int i = 0; i < parameters; ++i) {
    count.add("p" + std::to_string(i), i >= unjudged, i == 0 ? "another" : "an unknown optimizer");
  }
  return count.total();
}

TEST_CASE("more than a tenth of the updates unjudged is too many") {
  CHECK(counted(20, 2).why_too_few().empty());
  CHECK(counted(20, 2).describe() == "the updates of 2 of 20 parameters were not judged");
  CHECK(counted(20, 3).why_too_few() ==
        "the updates of 3 of 20 parameters were not judged: an unknown optimizer");
  CHECK(counted(1, 1).why_too_few() == "the updates of 1 of 1 parameter were not judged: another");
  CHECK(counted(20, 0).describe().empty());
  CHECK(counted(0, 0).why_too_few().empty());
}

TEST_CASE("a parameter is judged if all of its updates are") {
  UpdateCount count;
  count.add("p", true, "");
  count.add("p", false, "why");
  count.add("p", true, "");
  count.add("q", true, "");
  const UpdateCoverage coverage = count.total();
  CHECK(coverage.parameters == 2);
  CHECK(coverage.unjudged == std::vector<std::string>{"p"});
  CHECK(coverage.reason == "why");
}

}  // namespace
}  // namespace ttrace::answer::update_coverage_test
