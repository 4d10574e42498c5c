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
  base::Message evidence{
      "{in_candidate} NaN or Inf in the candidate, {in_reference} in {reference}, the first that "
      "differs at {first_at}[ on {first_on}]",
      {{"in_candidate", total.nonfinite_candidate},
       {"in_reference", total.nonfinite_reference},
       {"first_at", tensor::to_string(at)}}};
  if (!ranks.empty()) evidence.values.emplace_back("first_on", layout::describe_ranks(ranks));
  return {cause_of(the_case, "non_finite", "", evidence, norm > 0 ? left / norm : 0)};
}

}  // namespace ttrace::localize
