#include <limits>
#include <sstream>

#include "report/sample_report.h"
#include "report/text_report.h"
#include "report/text_sections.h"
#include "support/catch.h"

namespace ttrace::report {
namespace {

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
        "output · step 0); of 2 tensors; 3 without truth; it decides nothing\n");
  report.results[0].truth = truth_of(0.6, 0);
  report.results[1].truth.reset();
  report.truth->incomparable = 1;
  report.truth->unreadable = 2;
  CHECK(summary(report) ==
        "  truth fp64.h5: no tensor has a ratio of errors; of 1 tensor, 1 without error in the "
        "reference; 3 without truth, 1 of another shape in it, 2 unreadable in it; it decides "
        "nothing\n");
}

TEST_CASE("a finding and the summary stand in the text report") {
  comparison::CompareReport report = test::diverged_report();
  report.truth = comparison::TruthRun{{"fp64.h5", 1, {}, {0}, "fp64"}, 0, 0, 0};
  report.results[0].truth = truth_of(0.6, 0.2);
  std::ostringstream out;
  write_text(report, {}, out);
  CHECK(out.str().find("     truth    error 3 × that of the reference") != std::string::npos);
  CHECK(out.str().find("\n  truth fp64.h5: ") != std::string::npos);
}

}  // namespace
}  // namespace ttrace::report
