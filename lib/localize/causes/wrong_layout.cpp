#include <cmath>

#include "base/bytes.h"
#include "base/error.h"
#include "base/strict_json.h"
#include "base/text.h"
#include "localize/causes/trial.h"

namespace ttrace::localize {
namespace {

// A pair of different shapes has no tolerance. Under another layout it matches up to this relative
// error.
constexpr double kMostOfShapes = 1e-3;
constexpr double kMostEpsilons = 16;

struct Alternative {
  std::string axis;
  trace::Placement placement;
};

// Placements that give a rank as many elements of the same shape.
std::vector<trace::Placement> others_like(const trace::Placement& declared, std::uint64_t extent,
                                          std::uint64_t ranks, bool goes_on) {
  std::vector<trace::Placement> others;
  if (const auto dim = trace::cut_dimension(declared)) {
    const bool plain = extent % ranks == 0;
    const auto* shard = std::get_if<trace::Shard>(&declared);
    if (plain && (shard == nullptr || shard->sizes)) others.push_back(trace::Shard{*dim, {}});
    if (extent % (2 * ranks) == 0 && !std::holds_alternative<trace::Zigzag>(declared)) {
      others.push_back(trace::Zigzag{*dim});
    }
    for (const std::uint64_t count : {std::uint64_t{2}, std::uint64_t{3}}) {
      if (extent % (count * ranks) != 0) continue;
      const trace::Segments segments{
          *dim, std::vector<std::uint64_t>(count, extent / count), 1, {}};
      if (declared == trace::Placement{segments}) continue;
      others.push_back(segments);
    }
  }
  // A wrong declaration of a sum is tried only if something bad follows from the tensor
  // (`goes_on`): a sum that is wrong in the manifest alone does no harm.
  if (const auto* partial = std::get_if<trace::Partial>(&declared); partial != nullptr && goes_on) {
    others.push_back(trace::Replicate{});
    const bool sum = partial->reduction == trace::Reduction::kSum;
    others.push_back(trace::Partial{sum ? trace::Reduction::kMean : trace::Reduction::kSum});
  }
  return others;
}

std::string rule_of(const trace::TensorEntry& entry, const Alternative& other,
                    const tensor::Shape* shape) {
  return base::concat(
      R"({"name": )", base::json_string(entry.key.name), R"(, "kind": )",
      base::json_string(kind_name(entry.key.kind)), R"(, "placements": {)",
      base::json_string(other.axis), ": ", json_text(other.placement), "}",
      shape != nullptr ? base::concat(R"(, "shape": )", tensor::to_string(*shape)) : std::string(),
      "}");
}

std::shared_ptr<const trace::TensorEntry> under(trace::TensorEntry entry, const Alternative& other,
                                                const tensor::Shape& shape) {
  entry.placements[other.axis] = other.placement;
  entry.shape = shape;
  return std::make_shared<const trace::TensorEntry>(std::move(entry));
}

// The first layout that fits. Only where it is the only one, it may be followed.
std::vector<Cause> first_of(std::vector<Cause> fitting) {
  if (fitting.empty()) return {};
  if (fitting.size() > 1) fitting.front().fits = nullptr;
  fitting.resize(1);
  return fitting;
}

measure::TensorRef with_placement(const measure::TensorRef& tensor, const Alternative& other,
                                  const tensor::Shape& shape) {
  layout::View view = *tensor.view;
  view.shape = shape;
  view.how = layout::Stored{under(*std::get<layout::Stored>(view.how).entry, other, shape)};
  return {tensor.source, std::make_shared<const layout::View>(std::move(view))};
}

// Another dimension that is cut over the axis, where that gives the shape.
std::optional<trace::Placement> other_dimension(const trace::TensorEntry& entry,
                                                const trace::Placement& declared,
                                                std::uint64_t ranks, const tensor::Shape& shape) {
  const auto cut = trace::cut_dimension(declared);
  if (!cut || entry.shape[*cut] % ranks != 0) return std::nullopt;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (d == *cut) continue;
    tensor::Shape other = entry.shape;
    other[*cut] /= ranks;
    const auto whole = base::checked_mul(other[d], ranks);
    if (!whole) continue;
    other[d] = *whole;
    if (other == shape) return trace::Shard{d, {}};
  }
  return std::nullopt;
}

// The placement that makes a candidate of another shape one of the reference's.
std::vector<Alternative> for_shape(const trace::TensorEntry& entry, const trace::Mesh& mesh,
                                   const tensor::Shape& shape) {
  std::vector<Alternative> others;
  if (entry.shape.size() != shape.size()) return others;
  std::optional<std::size_t> dim;  // the only one that differs
  std::size_t differing = 0;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] == entry.shape[d]) continue;
    dim = ++differing == 1 ? std::optional(d) : std::nullopt;
  }
  for (const trace::MeshAxis& axis : mesh.axes) {
    const auto placed = entry.placements.find(axis.name);
    const trace::Placement declared =
        placed == entry.placements.end() ? trace::Placement{} : placed->second;
    if (axis.size < 2) continue;
    if (const auto other = other_dimension(entry, declared, axis.size, shape)) {
      others.push_back({axis.name, *other});
    }
    if (!dim) continue;
    const bool whole = std::holds_alternative<trace::Replicate>(declared);
    if (whole && shape[*dim] == axis.size * entry.shape[*dim]) {
      others.push_back({axis.name, trace::Shard{*dim, {}}});
      others.push_back({axis.name, trace::Zigzag{*dim}});
    }
    if (trace::cut_dimension(declared) == *dim && entry.shape[*dim] == axis.size * shape[*dim]) {
      others.push_back({axis.name, trace::Replicate{}});
    }
  }
  return others;
}

// Whether the reference has several values: a constant is itself under any layout.
bool varies(const measure::Backend& backend, const measure::TensorRef& reference,
            const measure::Measurement& measured) {
  Case the_case;
  the_case.backend = &backend;
  the_case.reference = reference;
  the_case.candidate = reference;
  the_case.measurement = &measured;
  the_case.exact = !tensor::is_floating(reference.view->dtype);
  return variety_of(the_case).of_reference > 1;
}

}  // namespace

std::vector<Cause> find_wrong_layout(const Case& the_case) {
  const auto* stored = std::get_if<layout::Stored>(&the_case.candidate.view->how);
  if (stored == nullptr || the_case.conflict) return {};
  const trace::TensorEntry& entry = *stored->entry;
  const trace::Mesh& mesh = the_case.candidate.source->manifest().meshes.at(entry.mesh);
  std::vector<Cause> fitting;
  for (const trace::MeshAxis& axis : mesh.axes) {
    const auto placed = entry.placements.find(axis.name);
    if (axis.size < 2 || placed == entry.placements.end()) continue;
    const auto dim = trace::cut_dimension(placed->second);
    const std::uint64_t extent = dim ? entry.shape[*dim] : 0;
    for (const trace::Placement& other :
         others_like(placed->second, extent, axis.size, !the_case.spreads)) {
      const Alternative alternative{axis.name, other};
      std::optional<double> left;
      try {
        left = distance_from(the_case, the_case.reference,
                             with_placement(the_case.candidate, alternative, entry.shape));
      } catch (const base::InputError&) {
        continue;  // the shards do not fit this placement
      }
      if (!left) continue;
      if (!explains(the_case, *left)) {
        reject(the_case, "wrong_layout_declared", *left);
        continue;
      }
      fitting.push_back(cause_that_leaves(
          the_case, *left, "wrong_layout_declared", axis.name,
          {"it matches if declared as {rule}", {{"rule", rule_of(entry, alternative, nullptr)}}}));
      fitting.back().fits = under(entry, alternative, entry.shape);
    }
  }
  return first_of(std::move(fitting));
}

std::vector<Cause> find_layout_for_shape(const measure::Backend& backend,
                                         const measure::TensorRef& reference,
                                         const measure::TensorRef& candidate) {
  const auto* stored = std::get_if<layout::Stored>(&candidate.view->how);
  const bool exact = !tensor::is_floating(reference.view->dtype);
  if (stored == nullptr || exact == tensor::is_floating(candidate.view->dtype)) return {};
  const trace::TensorEntry& entry = *stored->entry;
  const trace::Mesh& mesh = candidate.source->manifest().meshes.at(entry.mesh);
  const tensor::Shape& shape = reference.view->shape;
  const auto elements = tensor::element_count(shape);
  if (!elements || *elements > kMostElementsForCauses) return {};
  std::vector<Cause> fitting;
  for (const Alternative& other : for_shape(entry, mesh, shape)) {
    measure::Measurement measured;
    try {
      measured = measure::measure(backend, reference, with_placement(candidate, other, shape), {});
    } catch (const base::InputError&) {
      continue;
    }
    const double norm = measure::reference_norm(measured.total);
    const double left = measure::difference_norm(measured.total);
    const double allowed = std::max(
        kMostOfShapes, kMostEpsilons * judge::shared_epsilon(*reference.view, *candidate.view));
    if (exact ? measured.total.unequal > 0 : !(left <= allowed * norm)) continue;
    if (measured.total.nonfinite_different > 0 || measured.replicas_differ) continue;
    if (!varies(backend, reference, measured)) continue;
    fitting.push_back(answer::cause_of(
        "wrong_layout_declared", other.axis,
        {"it matches if declared as {rule}", {{"rule", rule_of(entry, other, &shape)}}},
        norm > 0 && !exact ? left / norm : 0));
    fitting.back().fits = under(entry, other, shape);
  }
  return first_of(std::move(fitting));
}

}  // namespace ttrace::localize
