#include "layout/layout_rules.h"

#include <algorithm>
#include <cmath>

#include "base/bytes.h"
#include "base/text.h"
#include "layout/map_rules.h"
#include "layout/plan.h"
#include "trace/layout_json.h"

namespace ttrace::layout {
namespace {

using base::JsonCursor;
using trace::TensorEntry;

struct Rule {
  JsonCursor json;
  std::vector<std::string> names;
  std::vector<trace::Kind> kinds;
  bool used = false;

  bool matches(const trace::TensorKey& key) const {
    return is_of(kinds, key.kind) &&
           std::any_of(names.begin(), names.end(), [&key](const std::string& pattern) {
             return base::glob_match(pattern, key.name);
           });
  }
};

// The extents that the ranks' arrays have under the entry's layout, if they all have the same.
std::optional<tensor::Shape> local_shape(const TensorEntry& entry, const trace::Mesh& mesh) {
  const std::vector<AxisView> views = axis_views(entry, mesh);
  std::vector<AxisView> cutting = views;
  for (AxisView& view : cutting) {
    if (std::holds_alternative<trace::Flat>(*view.placement) ||
        std::holds_alternative<trace::Rows>(*view.placement)) {
      return std::nullopt;
    }
    if (!cuts(*view.placement)) view.held.resize(1);
  }
  std::optional<tensor::Shape> shape;
  bool same = true;
  for_each_position(cutting, [&](const std::vector<std::uint64_t>& position) {
    std::vector<std::uint64_t> coordinates;
    for (std::size_t a = 0; a < cutting.size(); ++a) {
      coordinates.push_back(cutting[a].held[position[a]]);
    }
    const tensor::Shape here = local_layout(entry, mesh, coordinates)->shape;
    same = same && (!shape || *shape == here);
    shape = here;
  });
  return same ? shape : std::nullopt;
}

// The extent of the dimension of which each of `count` coordinates has `extent` elements.
std::optional<std::uint64_t> uncut(const trace::Placement& placement, std::uint64_t extent,
                                   std::uint64_t count) {
  if (const auto* shard = std::get_if<trace::Shard>(&placement); shard != nullptr && shard->sizes) {
    std::optional<std::uint64_t> sum = 0;
    for (const std::uint64_t size : *shard->sizes) {
      if (sum) sum = base::checked_add(*sum, size);
    }
    return sum;
  }
  return base::checked_mul(extent, count);
}

std::optional<tensor::Shape> whole_shape(const TensorEntry& entry, const trace::Mesh& mesh,
                                         tensor::Shape shape) {
  const std::vector<AxisView> views = axis_views(entry, mesh);
  for (std::size_t a = views.size(); a-- > 0;) {  // the innermost cut is undone first
    const trace::Placement& placement = *views[a].placement;
    if (!cuts(placement)) continue;
    const auto dim = trace::cut_dimension(placement);
    if (!dim || std::holds_alternative<trace::Rows>(placement) || *dim >= shape.size()) {
      return std::nullopt;
    }
    const auto extent = uncut(placement, shape[*dim], views[a].held.size());
    if (!extent) return std::nullopt;
    shape[*dim] = *extent;
  }
  return shape;
}

// Whether the ranks' shards have the same shapes under both layouts, whatever the replicas are.
bool cut_alike(const TensorEntry& a, const TensorEntry& b, const trace::Mesh& mesh) {
  const std::vector<AxisView> of_a = axis_views(a, mesh);
  const std::vector<AxisView> of_b = axis_views(b, mesh);
  for (std::size_t i = 0; i < of_a.size(); ++i) {
    if (!cuts(*of_a[i].placement) && !cuts(*of_b[i].placement)) continue;
    if (*of_a[i].placement != *of_b[i].placement || of_a[i].held != of_b[i].held) return false;
  }
  return true;
}

class RuleApplication {
 public:
  RuleApplication(const JsonCursor& rule, const trace::Manifest& before,
                  const trace::Manifest& after)
      : rule_(rule), before_(before), after_(after) {}

  TensorEntry applied_to(const TensorEntry& old) const {
    TensorEntry entry = old;
    if (const auto mesh = rule_.find("mesh")) {
      entry.mesh = mesh->as_string();
      if (entry.mesh != old.mesh) {
        // The axes of another mesh are different ones, even if they have the same names.
        entry.placements.clear();
        entry.held_at.clear();
      }
    }
    const auto mesh = after_.meshes.find(entry.mesh);
    if (mesh == after_.meshes.end()) {
      throw rule_.error("there is no mesh \"", base::printable(entry.mesh), "\"");
    }
    if (const auto held_at = rule_.find("held_at")) {
      for (const auto& [axis, list] : held_at->members()) {
        entry.held_at[axis] = trace::held_coordinates_from(list, axis, mesh->second);
      }
    }
    read_placements(entry);
    read_scale(entry);
    const bool shape_given = read_shape(entry);
    check_placements(entry, mesh->second);
    if (!shape_given) {
      derive_shape(old, mesh->second, entry);
      check_placements(entry, mesh->second);
    }
    return entry;
  }

 private:
  void check_placements(const TensorEntry& entry, const trace::Mesh& mesh) const {
    const auto given = rule_.find("placements");
    for (const auto& [axis, placement] : entry.placements) {
      const auto value = given ? given->find(axis) : std::nullopt;
      check_placement(placement, axis, entry, mesh, value.value_or(rule_));
    }
  }

  void read_placements(TensorEntry& entry) const {
    const auto placements = rule_.find("placements");
    if (!placements) return;
    for (const auto& [axis, value] : placements->members()) {
      entry.placements.insert_or_assign(axis, trace::placement_from(value));
    }
  }

  void read_scale(TensorEntry& entry) const {
    const auto scale = rule_.find("scale");
    if (!scale) return;
    entry.scale = scale->as_number();
    if (!std::isfinite(entry.scale)) throw scale->error("the scale is not finite");
    if (!tensor::is_floating(entry.dtype)) {
      throw scale->error("a scale on ", tensor::dtype_name(entry.dtype),
                         "; only floating-point tensors are scaled");
    }
  }

  bool read_shape(TensorEntry& entry) const {
    const auto shape = rule_.find("shape");
    if (!shape) return false;
    entry.shape = trace::shape_from(*shape, entry.dtype);
    return true;
  }

  void derive_shape(const TensorEntry& old, const trace::Mesh& mesh, TensorEntry& entry) const {
    if (old.mesh == entry.mesh && cut_alike(old, entry, mesh)) return;
    const auto local = local_shape(old, before_.meshes.at(old.mesh));
    const auto whole = local ? whole_shape(entry, mesh, *local) : std::nullopt;
    if (whole && tensor::byte_count(*whole, entry.dtype)) {
      entry.shape = *whole;
      if (cut_from(entry, mesh, *local)) return;
    }
    throw rule_.error("the whole shape of ", to_string(entry.key),
                      " cannot be worked out from the shards; give it as \"shape\"");
  }

  // Whether the first rank's array has the extents `local`: a zigzag of 6 over 2 leaves no 3.
  static bool cut_from(const TensorEntry& entry, const trace::Mesh& mesh,
                       const tensor::Shape& local) {
    for (const auto& [axis, placement] : entry.placements) {
      const auto* shard = std::get_if<trace::Shard>(&placement);
      if (shard != nullptr && shard->sizes) return true;  // its shards may have different extents
    }
    try {
      return local_shape(entry, mesh) == local;
    } catch (const base::InputError&) {
      return false;
    }
  }

  const JsonCursor& rule_;
  const trace::Manifest& before_;
  const trace::Manifest& after_;
};

}  // namespace

trace::Manifest with_layout_rules(const trace::Manifest& manifest, std::string_view text,
                                  const std::string& file) {
  const base::JsonDocument document(text, file);
  const JsonCursor root = document.root();
  root.require("schema").require_format("ttrace.layout/1");
  root.allow_keys({"schema", "meshes", "rules"});
  trace::Manifest changed = manifest;
  if (const auto meshes = root.find("meshes")) {
    for (const auto& [name, object] : meshes->members()) {
      if (changed.meshes.contains(name)) {
        throw object.error("the trace has a mesh of this name; give the new one another");
      }
      changed.meshes.emplace(name, trace::mesh_from(object));
    }
  }
  std::vector<Rule> rules;
  for (const JsonCursor& rule : root.require("rules").items()) {
    rule.allow_keys({"name", "kind", "mesh", "held_at", "placements", "shape", "scale"});
    rules.push_back({rule, one_or_more(rule, "name"), kinds_of(rule)});
  }
  for (TensorEntry& entry : changed.tensors) {
    const auto rule = std::find_if(rules.begin(), rules.end(),
                                   [&](const Rule& r) { return r.matches(entry.key); });
    if (rule == rules.end()) continue;
    rule->used = true;
    entry = RuleApplication(rule->json, manifest, changed).applied_to(entry);
  }
  for (const Rule& rule : rules) {
    if (rule.used) continue;
    std::vector<std::string> names;
    for (const TensorEntry& entry : manifest.tensors) names.push_back(entry.key.name);
    throw rule.json.error("no tensor that an earlier rule leaves matches ",
                          base::printable(rule.names[0]), base::nearest_hint(rule.names[0], names));
  }
  return changed;
}

}  // namespace ttrace::layout
