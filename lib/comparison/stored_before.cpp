#include "comparison/stored_before.h"

#include <algorithm>
#include <limits>
#include <set>
#include <string>
#include <variant>

namespace ttrace::comparison {
namespace {

using trace::Kind;

// Whether every element of the view is one that a trace has, unchanged.
bool is_copied(const layout::View& view) {
  if (std::holds_alternative<layout::Stored>(view.how)) return true;
  if (std::holds_alternative<layout::Sum>(view.how)) return false;
  if (const auto* mosaic = std::get_if<layout::Mosaic>(&view.how)) {
    return std::all_of(mosaic->tiles.begin(), mosaic->tiles.end(),
                       [](const auto& tile) { return is_copied(*tile.source); });
  }
  return is_copied(*std::get<layout::Transposed>(view.how).source);
}

// An input that has a gradient was computed by something in front of the model, as by the earlier
// stage of a pipeline, and a later call's by the earlier call.
bool is_given_to_model(const trace::TensorKey& key, const std::set<std::string>& with_gradient) {
  return key.call == 0 && trace::module_of_value(key.name) == trace::kWholeModel &&
         !with_gradient.contains(key.name);
}

bool is_read(const trace::TensorKey& key, const std::set<std::string>& with_gradient) {
  switch (key.kind) {
    case Kind::kParam:
    case Kind::kBuffer:
    case Kind::kOptimizerState:
      return true;
    case Kind::kInput:
      return is_given_to_model(key, with_gradient);
    default:
      return false;
  }
}

std::set<std::string> inputs_with_gradient(const std::vector<TensorComparison>& results) {
  std::set<std::string> names;
  for (const TensorComparison& result : results) {
    if (result.key.kind == Kind::kGradInput) names.insert(result.key.name);
  }
  return names;
}

std::uint64_t earliest_step(const trace::Manifest& manifest) {
  std::uint64_t first = std::numeric_limits<std::uint64_t>::max();
  for (const trace::TensorEntry& entry : manifest.tensors) first = std::min(first, entry.key.step);
  return first;
}

bool is_compared(const TensorComparison& result) {
  return result.outcome == judge::Outcome::kMatch && result.reference != nullptr &&
         result.candidate != nullptr;
}

std::optional<measure::StoredAs> stored_as(const layout::View& view) {
  std::optional<measure::StoredAs> all;
  for (const trace::TensorEntry* entry : layout::stored_in(view)) {
    const measure::StoredAs one{entry->dtype, entry->scale};
    if (!tensor::is_floating(one.dtype) || (all && *all != one)) return std::nullopt;
    all = one;
  }
  return all;
}

}  // namespace

UpdatesBefore updates_before(const trace::Manifest& manifest, std::uint64_t step) {
  if (step > earliest_step(manifest)) return {step, false};
  if (manifest.run.updates_before) return {*manifest.run.updates_before, true};
  std::optional<double> counted;
  for (const trace::OptimizerGroup& group : manifest.optimizer) {
    const auto updates = group.numbers.find("updates");
    if (group.step != step || updates == group.numbers.end()) continue;
    counted = std::max(counted.value_or(1), updates->second);
  }
  if (counted && *counted < 0x1p53) return {static_cast<std::uint64_t>(*counted) - 1, true};
  return {step, false};
}

std::optional<LateStart> mark_stored_before(const trace::Manifest& reference,
                                            const trace::Manifest& candidate,
                                            std::vector<TensorComparison>& results) {
  std::uint64_t step = std::numeric_limits<std::uint64_t>::max();
  for (const TensorComparison& result : results) {
    if (is_compared(result)) step = std::min(step, result.key.step);
  }
  LateStart late{step, 0};
  bool is_late = false;
  for (const trace::Manifest* run : {&reference, &candidate}) {
    const UpdatesBefore before = updates_before(*run, step);
    is_late = is_late || before.count > 0;
    if (before.is_known) late.updates = std::max(late.updates, before.count);
  }
  if (is_late) {
    // Who selects a later step of both knows that their start is not among what is compared.
    const bool selected = std::max(earliest_step(reference), earliest_step(candidate)) < step;
    const bool any = std::any_of(results.begin(), results.end(), [&](const auto& result) {
      return result.key.kind == Kind::kParam && result.key.step == step && is_compared(result);
    });
    return any && !selected ? std::optional(late) : std::nullopt;
  }
  const std::set<std::string> with_gradient = inputs_with_gradient(results);
  for (TensorComparison& result : results) {
    result.stored_before = result.key.step == step && is_compared(result) && !result.exact &&
                           is_read(result.key, with_gradient) && is_copied(*result.reference) &&
                           is_copied(*result.candidate);
  }
  return std::nullopt;
}

std::optional<measure::Roundings> roundings_of(const TensorComparison& result) {
  if (!result.stored_before) return std::nullopt;
  const auto reference = stored_as(*result.reference);
  const auto candidate = stored_as(*result.candidate);
  if (!reference || !candidate || *reference == *candidate) return std::nullopt;
  return measure::Roundings(*reference, *candidate);
}

}  // namespace ttrace::comparison
