#include <sstream>

#include "base/text.h"
#include "report/sample_report.h"
#include "report/text_sections.h"
#include "support/catch.h"

namespace ttrace::report {
namespace {

using judge::Outcome;

comparison::Result missing(const std::string& name, std::vector<std::string> nearest) {
  comparison::Result result = test::unmeasured(name, Outcome::kMissing, "in the reference only");
  result.nearest = std::move(nearest);
  return result;
}

std::string text_of(std::vector<comparison::Result> results, bool all = false) {
  std::ostringstream out;
  write_unmatched(test::report_of(comparison::Verdict::kDiverged, std::move(results)), all, out);
  return out.str();
}

const std::string kHeading =
    "\n  names that only one side has, with the nearest of the same shape on the other (--map "
    "RULES.json makes them meet):\n";

TEST_CASE("a line for each name, with its shape and what it may be called") {
  CHECK(text_of({missing("b", {"x"}), missing("a", {"y", "z"})}) ==
        kHeading + "    reference a [4]  candidate y, z\n    reference b [4]  candidate x\n");
}

TEST_CASE("nothing is written where no other name is alike") {
  CHECK(text_of({}).empty());
  CHECK(text_of({missing("a", {})}).empty());
  comparison::Result extra = test::unmeasured("a", Outcome::kExtra, "in the candidate only");
  CHECK(text_of({extra}).empty());
  CHECK(text_of({test::compared("a", {1}, {1})}).empty());
}

TEST_CASE("kinds and steps of one name are one line") {
  comparison::Result gradient = missing("a", {"x"});
  gradient.key.kind = trace::Kind::kMainGrad;
  comparison::Result later = missing("a", {"x"});
  later.key.step = 1;
  CHECK(text_of({missing("a", {"x"}), gradient, later}) ==
        kHeading + "    reference a [4]  candidate x\n");
}

TEST_CASE("five lines, then how many there are beyond") {
  std::vector<comparison::Result> results;
  for (int i = 0; i < 5; ++i) results.push_back(missing(base::concat("a", i), {"x"}));
  const std::string five = text_of(results);
  CHECK(five.ends_with("    reference a4 [4]  candidate x\n"));
  results.push_back(missing("a5", {"x"}));
  results.push_back(missing("a6", {"x"}));
  CHECK(text_of(results) == five + "    and 2 more (--all)\n");
  CHECK(text_of(results, true).ends_with("    reference a6 [4]  candidate x\n"));
}

TEST_CASE("control characters in names do not reach the terminal") {
  const std::string text = text_of({missing("a\x1b[31m", {"x\ny"})});
  CHECK(text.find('\x1b') == std::string::npos);
  CHECK(text.find("x\ny") == std::string::npos);
}

}  // namespace
}  // namespace ttrace::report
