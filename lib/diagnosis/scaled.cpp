#include "diagnosis/scaled.h"

#include <cmath>

#include "base/concat.h"
#include "base/number_text.h"
#include "diagnosis/separating_axes.h"

namespace ttrace::diagnosis {
namespace {

// An axis whose size, or its inverse, is the factor within a hundredth.
std::string axis_of_factor(double factor, const trace::Mesh& mesh) {
  for (const trace::MeshAxis& axis : mesh.axes) {
    if (axis.size < 2) continue;
    const auto size = static_cast<double>(axis.size);
    for (const double wanted : {size, 1 / size}) {
      if (std::abs(factor / wanted - 1) < 0.01) return axis.name;
    }
  }
  return "";
}

}  // namespace

std::vector<Cause> find_scaled(const Case& the_case) {
  const compare::TileStats& stats = the_case.measurement->total;
  // One element is always a multiple of another.
  if (stats.finite < 2 || stats.nonfinite_different > 0 || the_case.measurement->replicas_differ) {
    return {};
  }
  const auto fit = compare::fit_scale(stats);
  const double allowed = the_case.tolerance.allowed_norm();
  if (!fit || !(fit->residual_norm <= allowed * std::max(1.0, std::abs(fit->scale)))) return {};
  // A residual within the tolerance says nothing if the whole error nearly is.
  if (fit->residual_norm > 0.1 * compare::difference_norm(stats)) return {};
  const trace::Mesh& mesh = mesh_of(the_case.candidate);
  const std::string axis = axis_of_factor(fit->scale, mesh);
  const double left = fit->residual_norm / compare::reference_norm(stats);
  std::string evidence = base::concat(base::short_number(fit->scale), " times the reference");
  if (!axis.empty()) {
    evidence +=
        base::concat(", the ", fit->scale > 1 ? "size" : "inverse of the size", " of axis ", axis);
  }
  evidence += base::concat(
      " (what is left: ", base::short_number(allowed > 0 ? fit->residual_norm / allowed : 0),
      " of the allowed)");
  return {{"scaled", axis, std::move(evidence), left}};
}

}  // namespace ttrace::diagnosis
