#include "optimizer/update_rounding.h"

#include <algorithm>

namespace ttrace::optimizer {

using measure::Algorithm;
using measure::Hyperparameters;
using tensor::DType;
using trace::TensorEntry;

std::optional<measure::StepRoundoffs> update_rounding(const Hyperparameters& hyperparameters,
                                                      const UpdateEntries& entries,
                                                      const Clip& clip) {
  std::vector<const TensorEntry*> all = entries.states;
  all.insert(all.end(), {entries.after, entries.parameter});
  if (entries.gradient != nullptr) all.push_back(entries.gradient);
  for (const TensorEntry* entry : all) {
    if (!measure::unit_roundoff(entry->dtype)) return std::nullopt;
    if (entry->computed_in && !measure::unit_roundoff(*entry->computed_in)) return std::nullopt;
  }
  const auto coarser = [](DType a, DType b) {
    return *measure::unit_roundoff(a) < *measure::unit_roundoff(b) ? b : a;
  };

  measure::StepRoundoffs rounding;
  const bool is_main = entries.parameter->key.kind == trace::Kind::kOptimizerState;
  const DType parameter = entries.parameter->dtype;
  DType working = parameter;
  if (!is_main && !entries.states.empty()) {
    working = entries.states.front()->dtype;
    for (const TensorEntry* state : entries.states) working = coarser(working, state->dtype);
    if (*measure::unit_roundoff(working) < *measure::unit_roundoff(parameter)) {
      rounding.parameter = *measure::unit_roundoff(parameter);
    } else {
      working = coarser(working, parameter);
    }
  }
  const bool sixteen_bits =
      *measure::unit_roundoff(parameter) > *measure::unit_roundoff(DType::kFloat32);
  if (!is_main && entries.states.empty() && sixteen_bits && hyperparameters.updates > 1) {
    // A finer copy may exist that the trace does not mention.
    rounding.parameter = *measure::unit_roundoff(parameter);
  }
  // A step in bf16 marks everything that it makes as computed in bf16. Its optimizer still works in
  // the type of the parameters, unless these are themselves coarser than they are stored.
  const auto& coarse = entries.parameter->computed_in;
  if (coarse && entries.after->computed_in) working = coarser(working, *coarse);
  const bool adam = hyperparameters.algorithm == Algorithm::kAdam ||
                    hyperparameters.algorithm == Algorithm::kAdamW;
  if (adam && working == DType::kFloat16) return std::nullopt;

  // The replay itself rounds as binary64 does.
  rounding.working = *measure::unit_roundoff(working) + *measure::unit_roundoff(DType::kFloat64);
  rounding.smallest = measure::smallest_rounding(working);
  rounding.largest = measure::largest_finite(working);
  const double stored = *measure::unit_roundoff(entries.after->dtype);
  if (stored > *measure::unit_roundoff(working)) {
    rounding.stored = stored;
    rounding.stored_smallest = measure::smallest_rounding(entries.after->dtype);
  }
  // Norm + 1e-6, the quotient and the product are rounded; one more for the recorded norm.
  if (clip.factor < 1 && entries.gradient != nullptr) {
    rounding.gradient = 4 * *measure::unit_roundoff(entries.gradient->dtype) + clip.rounding;
  }
  return rounding;
}

}  // namespace ttrace::optimizer
