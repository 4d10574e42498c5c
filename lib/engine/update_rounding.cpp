#include "engine/update_rounding.h"

#include <algorithm>

namespace ttrace::engine {

using tensor::DType;
using update::unit_roundoff;

std::optional<update::Rounding> update_rounding(const update::Hyperparameters& hyperparameters,
                                                const UpdateEntries& entries, bool clipped) {
  std::vector<const trace::TensorEntry*> all = entries.states;
  all.insert(all.end(), {entries.after, entries.parameter});
  if (entries.gradient != nullptr) all.push_back(entries.gradient);
  for (const trace::TensorEntry* entry : all) {
    if (!unit_roundoff(entry->dtype)) return std::nullopt;
    if (entry->computed_in && !unit_roundoff(*entry->computed_in)) return std::nullopt;
  }
  const auto coarser = [](DType a, DType b) {
    return *unit_roundoff(a) < *unit_roundoff(b) ? b : a;
  };

  update::Rounding rounding;
  const bool is_main = entries.parameter->key.kind == trace::Kind::kOptimizerState;
  const DType parameter = entries.parameter->dtype;
  DType working = parameter;
  if (!is_main && !entries.states.empty()) {
    working = entries.states.front()->dtype;
    for (const trace::TensorEntry* state : entries.states) working = coarser(working, state->dtype);
    if (*unit_roundoff(working) < *unit_roundoff(parameter)) {
      rounding.parameter = *unit_roundoff(parameter);
    } else {
      working = coarser(working, parameter);
    }
  }
  const bool sixteen_bits = *unit_roundoff(parameter) > *unit_roundoff(DType::kFloat32);
  if (!is_main && entries.states.empty() && sixteen_bits && hyperparameters.updates > 1) {
    // A finer copy may exist, and nothing tells of it.
    rounding.parameter = *unit_roundoff(parameter);
  }
  // A step in bf16 marks all that it makes as computed in bf16. Its optimizer works in the type of
  // the parameters all the same, unless these are coarser than they are stored themselves.
  const auto& coarse = entries.parameter->computed_in;
  if (coarse && entries.after->computed_in) working = coarser(working, *coarse);
  const bool adam = hyperparameters.algorithm == update::Algorithm::kAdam ||
                    hyperparameters.algorithm == update::Algorithm::kAdamW;
  if (adam && working == DType::kFloat16) return std::nullopt;

  // The replay itself rounds as binary64 does.
  rounding.working = *unit_roundoff(working) + *unit_roundoff(DType::kFloat64);
  rounding.smallest = update::smallest_rounding(working);
  rounding.largest = update::largest_finite(working);
  const double stored = *unit_roundoff(entries.after->dtype);
  if (stored > *unit_roundoff(working)) {
    rounding.stored = stored;
    rounding.stored_smallest = update::smallest_rounding(entries.after->dtype);
  }
  // Norm + 1e-6, the quotient and the product are rounded; one to spare for the recorded norm.
  if (clipped && entries.gradient != nullptr) {
    rounding.gradient = 4 * *unit_roundoff(entries.gradient->dtype);
  }
  return rounding;
}

}  // namespace ttrace::engine
