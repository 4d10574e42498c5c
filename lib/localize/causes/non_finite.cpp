#include "base/text.h"
#include "layout/mesh.h"
#include "localize/causes/trial.h"

namespace ttrace::localize {

std::vector<Cause> find_non_finite(const Case& the_case) {
  const measure::TileStats& total = the_case.measurement->total;
  if (total.nonfinite_different == 0 || !total.first_nonfinite_difference) return {};
  const tensor::Shape& at = *total.first_nonfinite_difference;
  const auto ranks = ranks_in(the_case, {at, tensor::Shape(at.size(), 1)});
  const double norm = measure::reference_norm(total);
  const double left = measure::difference_norm(total);
  return {{"non_finite",
           "",
           base::concat(total.nonfinite_candidate, " NaN or Inf in the candidate, ",
                        total.nonfinite_reference, " in the reference, the first that differs at ",
                        tensor::to_string(at),
                        ranks.empty() ? "" : base::concat(" on ", layout::describe_ranks(ranks))),
           norm > 0 ? left / norm : 0,
           {{"in_candidate", total.nonfinite_candidate},
            {"in_reference", total.nonfinite_reference},
            {"first_at", tensor::to_string(at)}}}};
}

}  // namespace ttrace::localize
