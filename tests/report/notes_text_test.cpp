#include "report/notes_text.h"

#include <limits>
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

comparison::TensorTruth truth_of(double candidate, double reference, std::uint64_t left_out = 0) {
  comparison::TensorTruth truth;
  truth.dtype = tensor::DType::kFloat64;
  truth.errors.candidate_error_norm = candidate;
  truth.errors.reference_error_norm = reference;
  truth.errors.truth_norm = 2;
  truth.errors.elements = 4;
  truth.errors.left_out = left_out;
  return truth;
}

std::string summary(const comparison::CompareReport& report) {
  std::ostringstream out;
  write_truth(report, out);
  return out.str();
}

TEST_CASE("a tensor's truth in words") {
  CHECK(describe_truth(truth_of(0.62, 0.2)) ==
        "error 3.1 × that of the reference (0.31 against 0.1 of the truth's norm, f64)");
  CHECK(describe_truth(truth_of(0, 0)) == "neither has an error");
  CHECK(describe_truth(truth_of(1, 0, 1)) ==
        "the reference has no error, the candidate 0.5 of the truth's norm; 1 element not finite "
        "left out");
  comparison::TensorTruth nothing = truth_of(0, 0, 4);
  nothing.errors.elements = 0;
  CHECK(describe_truth(nothing) == "no element is finite in all three");
  CHECK(describe_truth(truth_of(1, std::numeric_limits<double>::infinity())) ==
        "the squares of the errors overflow binary64");
  comparison::TensorTruth zero = truth_of(2, 1);
  zero.errors.truth_norm = 0;
  CHECK(describe_truth(zero) ==
        "error 2 × that of the reference (inf against inf of the truth's norm, f64)");
}

TEST_CASE("the summary tells median, worst and what has no truth") {
  comparison::CompareReport report = test::diverged_report();
  CHECK(summary(report).empty());
  report.truth = comparison::TruthRun{{"fp64.h5", 1, {}, {0}, "fp64"}, 3, 0, 0};
  report.results[0].truth = truth_of(0.6, 0.2);
  report.results[1].truth = truth_of(0.2, 0.2);
  CHECK(summary(report) ==
        "  truth fp64.h5: error of the candidate / error of the reference: median 2, worst 3 (fc · "
        "output · step 0); of 2 tensors; 3 without truth; it does not affect the verdict\n");
  report.results[0].truth = truth_of(0.6, 0);
  report.results[1].truth.reset();
  report.truth->incomparable = 1;
  report.truth->unreadable = 2;
  CHECK(summary(report) ==
        "  truth fp64.h5: no tensor has a ratio of errors; of 1 tensor, 1 without error in the "
        "reference; 3 without truth, 1 of another shape in it, 2 unreadable in it; it does "
        "not affect the verdict\n");
}

TEST_CASE("a finding and the summary stand in the text report") {
  comparison::CompareReport report = test::diverged_report();
  report.truth = comparison::TruthRun{{"fp64.h5", 1, {}, {0}, "fp64"}, 0, 0, 0};
  report.results[0].truth = truth_of(0.6, 0.2);
  std::ostringstream out;
  write_text(report, {false, true, 0, {}}, out);
  CHECK(out.str().find("     truth    error 3 × that of the reference") != std::string::npos);
  CHECK(out.str().find("\n  truth fp64.h5: ") != std::string::npos);
}

using judge::Outcome;

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
