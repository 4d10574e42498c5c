#include "report/truth_text.h"

#include <cmath>
#include <limits>
#include <ostream>

#include "base/concat.h"
#include "base/number_text.h"

namespace ttrace::report {

using base::concat;
using base::short_number;

double relative_to_truth(double error_norm, const compare::TruthErrors& errors) {
  if (error_norm == 0) return 0;
  if (!(errors.truth_norm > 0)) return std::numeric_limits<double>::infinity();
  return error_norm / errors.truth_norm;
}

std::string truth_words(const TensorTruth& truth) {
  const compare::TruthErrors& errors = truth.errors;
  const auto relative = [&errors](double error) {
    return short_number(relative_to_truth(error, errors));
  };
  if (errors.elements == 0) return "no element is finite in all three";
  const std::string left_out =
      errors.left_out == 0
          ? ""
          : concat("; ", base::plural(errors.left_out, "element"), " not finite left out");
  if (errors.reference_error_norm == 0) {
    return errors.candidate_error_norm == 0
               ? concat("neither has an error", left_out)
               : concat("the reference has no error, the candidate ",
                        relative(errors.candidate_error_norm), " of the truth's norm", left_out);
  }
  const auto ratio = compare::error_ratio(errors);
  if (!ratio) return concat("the squares of the errors overflow binary64", left_out);
  return concat("error ", short_number(*ratio), " × that of the reference (",
                relative(errors.candidate_error_norm), " against ",
                relative(errors.reference_error_norm), " of the truth's norm, ",
                dtype_short_name(truth.dtype), ")", left_out);
}

std::vector<const TensorTruth*> truths_of(const CompareReport& report) {
  std::vector<const TensorTruth*> truths;
  for (const Result& result : report.results) {
    truths.push_back(result.truth ? &*result.truth : nullptr);
  }
  return truths;
}

void write_truth(const CompareReport& report, std::ostream& out) {
  if (!report.truth) return;
  const TruthRun& run = *report.truth;
  const TruthRatios ratios = truth_ratios(truths_of(report));
  out << "  truth " << base::printable(run.facts.path) << ": ";
  if (ratios.worst) {
    out << "error of the candidate / error of the reference: median "
        << short_number(*ratios.median) << ", worst " << short_number(*ratios.worst) << " ("
        << base::printable(to_string(report.results[ratios.worst_at].key)) << ")";
  } else {
    out << "no tensor has a ratio of errors";
  }
  out << "; of " << base::plural(ratios.compared, "tensor");
  if (ratios.reference_exact > 0) {
    out << ", " << ratios.reference_exact << " without error in the reference";
  }
  if (ratios.unusable > 0) out << ", " << ratios.unusable << " with nothing finite to measure";
  out << "; " << run.without << " without truth";
  if (run.incomparable > 0) out << ", " << run.incomparable << " of another shape in it";
  if (run.unreadable > 0) out << ", " << run.unreadable << " unreadable in it";
  out << "; it decides nothing\n";
}

}  // namespace ttrace::report
