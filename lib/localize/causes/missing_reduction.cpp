#include <algorithm>

#include "localize/causes/cause.h"
#include "localize/causes/replicas_along_axis.h"
#include "localize/causes/separating_axes.h"
#include "localize/causes/trial.h"

namespace ttrace::localize {
namespace {

// The largest share of the distance between the copies that the reduction may leave unexplained.
constexpr double kMostLeftOfCopies = 0.25;
// Copies of which each is compared with the reference.
constexpr std::uint64_t kMostCopies = 64;

bool has_copies_over(const trace::TensorEntry& entry, const std::string& axis,
                     const trace::Manifest& manifest) {
  const auto placed = entry.placements.find(axis);
  const bool copies =
      placed == entry.placements.end() || std::holds_alternative<trace::Replicate>(placed->second);
  const auto& axes = manifest.meshes.at(entry.mesh).axes;
  return copies && std::any_of(axes.begin(), axes.end(), [&](const trace::MeshAxis& one) {
           return one.name == axis && one.size > 1;
         });
}

bool a_copy_is_right(const Case& the_case, const std::string& axis,
                     const trace::Manifest& manifest) {
  const trace::TensorEntry& entry = *layout::stored_in(*the_case.candidate.view).front();
  for (const trace::MeshAxis& one : manifest.meshes.at(entry.mesh).axes) {
    if (one.name != axis) continue;
    for (std::uint64_t i = 0; i < std::min(one.size, kMostCopies); ++i) {
      const auto distance =
          distance_from(the_case, the_case.reference, at_coordinate(the_case.candidate, axis, i));
      if (distance && *distance <= the_case.tolerance.allowed_norm()) return true;
    }
  }
  return false;
}

}  // namespace

std::vector<Cause> find_missing_reduction(const Case& the_case) {
  std::vector<Cause> causes;
  const measure::ReplicaDifference& replicas = the_case.measurement->replicas;
  if (!the_case.measurement->replicas_differ ||
      !tensor::is_floating(the_case.candidate.view->dtype)) {
    return causes;
  }
  const trace::Manifest& manifest = the_case.candidate.source->manifest();
  for (const std::string& axis : separating_axes(the_case.candidate, replicas)) {
    for (const trace::Reduction reduction : {trace::Reduction::kSum, trace::Reduction::kMean}) {
      // The same bytes under another placement give the value that a reduction would have had. In a
      // tensor made of several, this changes all that have copies over the axis.
      const layout::ViewPtr reduced =
          layout::with_entries(the_case.candidate.view, [&](const trace::TensorEntry& entry) {
            trace::TensorEntry changed = entry;
            if (has_copies_over(entry, axis, manifest)) {
              changed.placements[axis] = trace::Partial{reduction};
            }
            return changed;
          });
      const measure::Measurement measured = measure::measure(
          *the_case.backend, the_case.reference, {the_case.candidate.source, reduced}, {});
      const double left = measure::difference_norm(measured.total);
      const double allowed = the_case.tolerance.allowed_norm();
      const double norm = measure::reference_norm(measured.total);
      if (!(norm > 0) || measured.total.nonfinite_different > 0) continue;
      // Compared with the distance of the copies, too: copies that are all near the reference also
      // have a mean near it, and that proves nothing.
      if (!(left <= allowed) || !(left <= kMostLeftOfCopies * replicas.distance_norm)) {
        reject(the_case, "missing_reduction", left);
        continue;
      }
      // A copy that is right by itself was never a term of a sum.
      if (a_copy_is_right(the_case, axis, manifest)) {
        reject(the_case, "missing_reduction", left);
        continue;
      }
      const std::string participle = reduction == trace::Reduction::kSum ? "summed" : "averaged";
      causes.push_back(
          cause_of(the_case, "missing_reduction", axis,
                   {"the {reduction} of the copies is {reference} (what is left: {left} "
                    "of the allowed)",
                    {{"reduction", std::string(reduction_name(reduction))},
                     {"left", share_of_allowed(the_case, left)}}},
                   left / norm, {{"reduced", participle}}));
    }
  }
  return causes;
}

}  // namespace ttrace::localize
