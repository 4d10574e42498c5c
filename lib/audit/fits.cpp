#include "audit/fits.h"

#include <algorithm>
#include <limits>
#include <set>

#include "base/bytes.h"
#include "base/error.h"
#include "base/message.h"
#include "base/strict_json.h"
#include "base/text.h"
#include "specification/describe.h"
#include "specification/primitives/shape_rules.h"
#include "trace/placement.h"

namespace ttrace::audit {

using trace::TensorEntry;

namespace {

// Returns a sentence if another declaration of the layout over one axis would give the tensor the
// specified shape; else empty.
std::string describe_slip(const TensorEntry& entry, const specification::SpecifiedTensor& specified,
                          const trace::Manifest& manifest) {
  if (entry.dtype != specified.dtype || entry.shape.size() != specified.shape.size()) return "";
  for (const trace::MeshAxis& axis : manifest.meshes.at(entry.mesh).axes) {
    if (axis.size < 2) continue;
    const auto placed = entry.placements.find(axis.name);
    const trace::Placement declared =
        placed == entry.placements.end() ? trace::Placement{} : placed->second;
    for (std::size_t d = 0; d < entry.shape.size(); ++d) {
      tensor::Shape shape = entry.shape;
      trace::Placement fitting = trace::Replicate{};
      if (std::holds_alternative<trace::Replicate>(declared)) {
        const auto whole = base::checked_mul(shape[d], axis.size);
        if (!whole) continue;
        shape[d] = *whole;
        fitting = trace::Shard{d, {}};
      } else if (trace::cut_dimension(declared) == d && shape[d] % axis.size == 0) {
        shape[d] /= axis.size;
      } else {
        continue;
      }
      if (!specification::fits(specified.shape, shape)) continue;
      const std::string fits =
          base::concat(R"({"name": )", base::json_string(entry.key.name), R"(, "kind": )",
                       base::json_string(kind_name(entry.key.kind)), R"(, "placements": {)",
                       base::json_string(axis.name), ": ", json_text(fitting), "}}");
      return base::render(
          {"{tensor} is declared {declared} over {axis}, {shape}, and the specification has "
           "{specified}: its layout looks wrong; it fits if declared as {fits} (--layout)",
           {{"tensor", to_string(entry.key)},
            {"declared", to_string(declared)},
            {"axis", axis.name},
            {"shape", tensor::to_string(entry.shape)},
            {"specified", specification::describe_shape(specified.shape)},
            {"fits", fits}}});
    }
  }
  return "";
}

// Throws if the run has less than half of the specification's parameters, and others instead.
void require_same_parameters(const trace::Source& run,
                             const specification::Specification& specification,
                             const std::string& file) {
  std::set<std::string> specified;
  for (const specification::SpecifiedTensor& tensor : specification.tensors) {
    if (tensor.kind == trace::Kind::kParam) specified.insert(tensor.name);
  }
  std::set<std::string> known;
  std::set<std::string> others;
  for (const TensorEntry& entry : run.manifest().tensors) {
    if (entry.key.kind != trace::Kind::kParam) continue;
    (specified.contains(entry.key.name) ? known : others).insert(entry.key.name);
  }
  if (others.empty() || 2 * known.size() >= specified.size()) return;
  throw base::input_error(file, ": is of another model than ", run.path(), ", which has ",
                          known.size(), " of its ", base::plural(specified.size(), "parameter"),
                          " and ", others.size(), " others, such as ",
                          base::printable(*others.begin()), "; make one with the run's model");
}

}  // namespace

void require_fits(const trace::Source& run, const specification::Specification& specification,
                  const std::string& file) {
  require_same_parameters(run, specification, file);
  bool any = false;
  std::uint64_t first = std::numeric_limits<std::uint64_t>::max();
  for (const TensorEntry& entry : run.manifest().tensors) first = std::min(first, entry.key.step);
  for (const TensorEntry& entry : run.manifest().tensors) {
    const auto number = specification.find(entry.key);
    if (!number || entry.microbatches) continue;
    any = true;
    const specification::SpecifiedTensor& specified = specification.tensors[*number];
    const bool fits = specification::fits(specified.shape, entry.shape);
    const bool may_differ =
        specification.decided_by_values && entry.key.microbatch && entry.key.step > first;
    if ((fits || may_differ) && specified.dtype == entry.dtype) continue;
    if (const std::string slip = describe_slip(entry, specified, run.manifest()); !slip.empty()) {
      throw base::input_error(run.path(), ": ", slip);
    }
    throw base::input_error(file, ": is of another model, batch or precision than ", run.path(),
                            ": ", to_string(entry.key), " is ",
                            specification::describe_shape(specified.shape), " ",
                            dtype_short_name(specified.dtype), " there and ",
                            tensor::to_string(entry.shape), " ", dtype_short_name(entry.dtype),
                            " in the run; make one with the run's model and micro-batch");
  }
  if (!any) {
    throw base::input_error(file, ": has no tensor of ", run.path(),
                            "; make one with the run's model");
  }
}

}  // namespace ttrace::audit
