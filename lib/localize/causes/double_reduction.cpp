#include <cmath>

#include "localize/causes/trial.h"

namespace ttrace::localize {
namespace {

constexpr double kMostOffAxis = 1e-3;  // relative, of the factor from the axis' size

// Axes of more than one coordinate over which `entry` is a sum.
std::vector<const trace::MeshAxis*> summed_axes(const trace::TensorEntry& entry,
                                                const trace::Mesh& mesh) {
  std::vector<const trace::MeshAxis*> axes;
  for (const trace::MeshAxis& axis : mesh.axes) {
    const auto placed = entry.placements.find(axis.name);
    if (axis.size < 2 || placed == entry.placements.end()) continue;
    const auto* partial = std::get_if<trace::Partial>(&placed->second);
    if (partial != nullptr && partial->reduction == trace::Reduction::kSum) axes.push_back(&axis);
  }
  return axes;
}

bool is_whole_over(const trace::TensorEntry& entry, const std::string& axis) {
  const auto placed = entry.placements.find(axis);
  const bool replicated =
      placed == entry.placements.end() || std::holds_alternative<trace::Replicate>(placed->second);
  return replicated && entry.held_at.find(axis) == entry.held_at.end();
}

// Copies that are declared terms of a sum, and are the whole sum each.
std::vector<Cause> terms_are_sums(const Case& the_case, const trace::TensorEntry& entry,
                                  const trace::Mesh& mesh) {
  std::vector<Cause> causes;
  for (const trace::MeshAxis* axis : summed_axes(entry, mesh)) {
    const layout::ViewPtr whole =
        layout::with_entries(the_case.candidate.view, [&](const trace::TensorEntry& one) {
          trace::TensorEntry changed = one;
          changed.placements.erase(axis->name);
          return changed;
        });
    const measure::Measurement measured = measure::measure(*the_case.backend, the_case.reference,
                                                           {the_case.candidate.source, whole}, {});
    const double left = measure::difference_norm(measured.total);
    if (measured.total.nonfinite_different > 0) continue;
    const bool alike = !measured.replicas_differ ||
                       measured.replicas->distance_norm <= the_case.tolerance.allowed_norm();
    if (!alike || !explains(the_case, left)) {
      reject(the_case, "double_reduction", left);
      continue;
    }
    causes.push_back(cause_that_leaves(
        the_case, left, "double_reduction", axis->name,
        {"each of the {terms} terms is {reference}'s sum already", {{"terms", axis->size}}}));
  }
  return causes;
}

// The tensor is as many times too large as an axis has ranks, and what it was made from (the raw
// gradient of the same parameter) is whole on each of them.
std::vector<Cause> summed_again(const Case& the_case, const trace::TensorEntry& entry,
                                const trace::Mesh& mesh) {
  if (the_case.related == nullptr || the_case.result == nullptr) return {};
  const trace::TensorKey& key = the_case.result->key;
  const auto fit = measure::fit_scale(the_case.measurement->total);
  if (key.kind != trace::Kind::kMainGrad || !fit || !explains(the_case, fit->residual_norm)) {
    return {};
  }
  std::vector<Cause> causes;
  for (const trace::MeshAxis& axis : mesh.axes) {
    const auto size = static_cast<double>(axis.size);
    if (axis.size < 2 || std::abs(fit->scale - size) > kMostOffAxis * size) continue;
    if (!is_whole_over(entry, axis.name)) continue;
    bool whole = false;
    for (const auto* record :
         the_case.related->alike(trace::Kind::kParamGrad, the_case.result->shape)) {
      if (record->key.name != key.name || record->key.step != key.step) continue;
      if (record->candidate == nullptr) continue;
      const trace::TensorEntry& raw = *layout::stored_in(*record->candidate).front();
      whole = raw.mesh == entry.mesh && is_whole_over(raw, axis.name);
      if (!whole) break;
    }
    if (!whole) continue;
    causes.push_back(cause_that_leaves(
        the_case, fit->residual_norm, "double_reduction", axis.name,
        {"{multiple} times {reference}, the size of axis {axis}, and its param_grad is whole on "
         "each of these ranks",
         {{"multiple", describe_factor(fit->scale, kMostOffAxis)}, {"axis", axis.name}}},
        {{"terms", axis.size}}));
  }
  return causes;
}

}  // namespace

std::vector<Cause> find_double_reduction(const Case& the_case) {
  const measure::TileStats& total = the_case.measurement->total;
  if (the_case.exact || total.nonfinite_different > 0 || total.finite < 2) return {};
  const trace::TensorEntry& entry = *layout::stored_in(*the_case.candidate.view).front();
  const trace::Mesh& mesh = the_case.candidate.source->manifest().meshes.at(entry.mesh);
  std::vector<Cause> causes = terms_are_sums(the_case, entry, mesh);
  if (causes.empty()) causes = summed_again(the_case, entry, mesh);
  return causes;
}

}  // namespace ttrace::localize
