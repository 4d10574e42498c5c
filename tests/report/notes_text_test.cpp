#include "report/notes_text.h"

#include <sstream>

#include "base/text.h"
#include "report/sample_report.h"
#include "report/text_report.h"
#include "routing/explain_flips.h"
#include "support/catch.h"

namespace ttrace::report::notes_text_test {
namespace {

using judge::Outcome;

comparison::RouterFlips flips() {
  comparison::RouterFlips router;
  router.key = ttrace::test::make_key("layers.1.mlp.router[1]");
  router.tokens = 64;
  router.experts = 8;
  router.flipped = 3;
  router.scores = "scores: made again from its input and layers.1.mlp.router.weight";
  router.noise = 0.02;
  router.largest_gap = 0.01;
  return router;
}

TEST_CASE("flips in words: explained, not explained, after others") {
  comparison::RouterFlips router = flips();
  CHECK(routing::describe_flips(router) ==
        "3 of 64 tokens went to other experts, each near a tie: the scores of those swapped are at "
        "most 0.01 apart, where their noise is 0.02 (scores: made again from its input and "
        "layers.1.mlp.router.weight)");
  router.follows = true;
  CHECK(routing::describe_flips(router) ==
        "3 of 64 tokens went to other experts, each as its own scores prefer, which flips before "
        "it have reached");
  router.unexplained = 2;
  router.first_unexplained = 17;
  router.why = "expert 1 for 0, against its own scores, which are 2 apart the other way";
  CHECK(routing::describe_flips(router) ==
        "3 of 64 tokens went to other experts; rounding does not explain 2 of them, the first "
        "token 17: expert 1 for 0, against its own scores, which are 2 apart the other way");
}

TEST_CASE("a finding says which rows its numbers leave out") {
  comparison::CompareReport report = test::diverged_report();
  std::ostringstream before;
  write_text(report, {false, true, 0, {}}, before);
  CHECK(before.str().find("     routing ") == std::string::npos);
  report.results[0].tokens_left_out = 1;
  std::ostringstream out;
  write_text(report, {false, true, 0, {}}, out);
  CHECK(out.str().find("     routing  without the rows of 1 token that went to other experts\n") !=
        std::string::npos);
}

TEST_CASE("the text report tells flips and what was not judged for them") {
  comparison::CompareReport report =
      test::report_of(answer::Verdict::kInconclusive,
                      {test::compared("layers.1", {3, 4}, {3, 4}),
                       test::compared("layers.2", {3, 4}, {3, 5}, Outcome::kAfterRoutingFlip)});
  report.why = "nothing diverged";
  std::ostringstream none;
  write_text(report, {false, true, 0, {}}, none);
  CHECK(none.str().find("routing:") == std::string::npos);
  CHECK(none.str().find(", 1 not judged after routing flips") != std::string::npos);
  report.results[0].tokens_left_out = 3;
  for (int i = 0; i < 6; ++i) report.routers.push_back(flips());
  std::ostringstream out;
  write_routing(report, false, out);
  CHECK(
      out.str().find("  routing: 18 tokens went to other experts in 6 routers, rounding explains "
                     "them all, which is no bug by itself; 1 tensor matched without their rows, 1 "
                     "computed from them not judged\n") == 0);
  CHECK(out.str().find("    and 2 more (--all)\n") != std::string::npos);
  std::ostringstream all;
  write_routing(report, true, all);
  CHECK(all.str().find("more (--all)") == std::string::npos);
  report.routers[1].unexplained = 1;
  std::ostringstream wrong;
  write_routing(report, false, wrong);
  CHECK(wrong.str().find(", 1 of them not explained by rounding; ") != std::string::npos);
}

comparison::TensorComparison missing(const std::string& name, std::vector<std::string> nearest) {
  comparison::TensorComparison result =
      test::unmeasured(name, Outcome::kMissing, "in the reference only");
  result.nearest = std::move(nearest);
  return result;
}

std::string text_of(std::vector<comparison::TensorComparison> results, bool all = false) {
  std::ostringstream out;
  write_unmatched(test::report_of(answer::Verdict::kWrong, std::move(results)), all, out);
  return out.str();
}

const std::string kHeading =
    "\n  names that only one side has, with the nearest of the same shape on the other (--map "
    "RULES.json maps one to the other):\n";

TEST_CASE("a line for each name, with its shape and what it may be called") {
  CHECK(text_of({missing("b", {"x"}), missing("a", {"y", "z"})}) ==
        kHeading + "    reference a [4]  candidate y, z\n    reference b [4]  candidate x\n");
}

TEST_CASE("nothing is written where no other name is alike") {
  CHECK(text_of({}).empty());
  CHECK(text_of({missing("a", {})}).empty());
  comparison::TensorComparison extra =
      test::unmeasured("a", Outcome::kExtra, "in the candidate only");
  CHECK(text_of({extra}).empty());
  CHECK(text_of({test::compared("a", {1}, {1})}).empty());
}

TEST_CASE("kinds and steps of one name are one line") {
  comparison::TensorComparison gradient = missing("a", {"x"});
  gradient.key.kind = trace::Kind::kMainGrad;
  comparison::TensorComparison later = missing("a", {"x"});
  later.key.step = 1;
  CHECK(text_of({missing("a", {"x"}), gradient, later}) ==
        kHeading + "    reference a [4]  candidate x\n");
}

TEST_CASE("five lines, then how many there are beyond") {
  std::vector<comparison::TensorComparison> results;
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

}  // namespace ttrace::report::notes_text_test
