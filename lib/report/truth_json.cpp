#include "report/truth_json.h"

#include "report/parts_json.h"
#include "report/truth_text.h"

namespace ttrace::report {

using json = nlohmann::ordered_json;

json tensor_truth_json(const TensorTruth& truth) {
  const compare::TruthErrors& errors = truth.errors;
  const auto relative = [&errors](double error) {
    return errors.elements > 0 ? number(relative_to_truth(error, errors)) : json(nullptr);
  };
  const auto ratio = compare::error_ratio(errors);
  return {{"dtype", dtype_name(truth.dtype)},
          {"candidate_error", relative(errors.candidate_error_norm)},
          {"reference_error", relative(errors.reference_error_norm)},
          {"ratio", ratio ? number(*ratio) : json(nullptr)},
          {"left_out", errors.left_out}};
}

json truth_json(const CompareReport& report) {
  const TruthRatios ratios = truth_ratios(truths_of(report));
  json out = trace_json(report.truth->facts);
  out["compared"] = ratios.compared;
  out["without"] = report.truth->without;
  out["incomparable"] = report.truth->incomparable;
  out["unreadable"] = report.truth->unreadable;
  out["reference_exact"] = ratios.reference_exact;
  out["median_ratio"] = ratios.median ? json(*ratios.median) : json(nullptr);
  out["worst"] = nullptr;
  if (ratios.worst) {
    out["worst"] = {{"ratio", *ratios.worst},
                    {"key", key_json(report.results[ratios.worst_at].key)}};
  }
  return out;
}

}  // namespace ttrace::report
