#include <algorithm>
#include <optional>
#include <string_view>

#include "base/bytes.h"
#include "base/text.h"
#include "trace/layout_json.h"
#include "trace/limits.h"

namespace ttrace::trace {
namespace {

using base::JsonCursor;

// `expected "replicate" or an object with shard, partial or only`, of all kinds.
std::string known_placements() {
  std::vector<std::string_view> keywords;
  PlacementKinds::for_each([&keywords]<typename Kind>(std::type_identity<Kind>) {
    if (keywords.empty() || keywords.back() != Kind::kKeyword) keywords.push_back(Kind::kKeyword);
  });
  std::string text = base::concat("expected \"", keywords[0], "\" or an object with ");
  for (std::size_t i = 1; i < keywords.size(); ++i) {
    text += base::concat(i == 1 ? "" : i + 1 < keywords.size() ? ", " : " or ", keywords[i]);
  }
  return text;
}

std::uint64_t axis_size(const Mesh& mesh, const std::string& axis, const JsonCursor& at) {
  for (const MeshAxis& known : mesh.axes) {
    if (known.name == axis) return known.size;
  }
  throw at.error("the mesh has no axis \"", base::printable(axis), "\"");
}

}  // namespace

Mesh mesh_from(const JsonCursor& object) {
  object.allow_keys({"axes", "ranks"});
  Mesh mesh;
  std::uint64_t coordinates = 1;
  const JsonCursor axes = object.require("axes");
  const std::vector<JsonCursor> all_axes = axes.items();
  if (all_axes.size() > kMostAxes) {
    throw axes.error(all_axes.size(), " axes, and at most ", kMostAxes,
                     " are read; no mesh has that many");
  }
  for (const JsonCursor& item : all_axes) {
    item.allow_keys({"name", "size"});
    MeshAxis axis{item.require("name").as_string(), item.require("size").as_count()};
    if (const auto problem = name_problem(axis.name)) throw item.error(*problem);
    if (axis.size == 0) throw item.error("axis \"", axis.name, "\" has size 0");
    const auto same = [&axis](const MeshAxis& other) { return other.name == axis.name; };
    if (std::any_of(mesh.axes.begin(), mesh.axes.end(), same)) {
      throw item.error("axis \"", axis.name, "\" stands twice in one mesh");
    }
    const auto product = base::checked_mul(coordinates, axis.size);
    if (!product || *product > kMostRanks) {
      throw item.error("the mesh has more than ", kMostRanks, " ranks, the most that are read");
    }
    coordinates = *product;
    mesh.axes.push_back(std::move(axis));
  }
  const auto ranks = object.find("ranks");
  if (!ranks) return mesh;
  if (ranks->is_string()) {
    if (ranks->as_string() != "row-major") {
      throw ranks->error("expected \"row-major\" or a list of ranks");
    }
    return mesh;
  }
  const std::vector<JsonCursor> listed = ranks->items();
  if (listed.size() != coordinates) {
    throw ranks->error("the axes have ", coordinates, " coordinates, the list has ", listed.size(),
                       " ranks");
  }
  for (const JsonCursor& item : listed) mesh.ranks.push_back(item.as_count());
  std::vector<std::uint64_t> sorted = mesh.ranks;
  std::sort(sorted.begin(), sorted.end());
  const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
  if (twice != sorted.end()) throw ranks->error("rank ", *twice, " stands at two coordinates");
  if (sorted.back() >= kMostRanks) {
    throw ranks->error("rank ", sorted.back(), " is beyond the limit of ", kMostRanks);
  }
  return mesh;
}

Placement placement_from(const JsonCursor& value) {
  std::optional<Placement> found;
  PlacementKinds::for_each([&]<typename Kind>(std::type_identity<Kind>) {
    if (!found && Kind::is_spelled(value)) found = Kind::parse(value);
  });
  if (found) return *found;
  if (value.is_string()) {
    throw value.error("unknown placement \"", base::printable(value.as_string()), "\", ",
                      known_placements());
  }
  value.members();  // throws if it is no object
  throw value.error("unknown placement, ", known_placements());
}

std::vector<std::uint64_t> held_coordinates_from(const JsonCursor& list, const std::string& axis,
                                                 const Mesh& mesh) {
  const std::uint64_t size = axis_size(mesh, axis, list);
  std::vector<std::uint64_t> held = counts_from(list);
  if (held.empty()) throw list.error("held at no coordinate");
  for (std::size_t i = 0; i < held.size(); ++i) {
    if (held[i] >= size) {
      throw list.error("coordinate ", held[i], ", but the axis has size ", size);
    }
    if (i > 0 && held[i] <= held[i - 1]) {
      throw list.error("coordinates must ascend: ", held[i - 1], " before ", held[i]);
    }
  }
  return held;
}

void check_placement(const Placement& placement, const std::string& axis, const TensorEntry& entry,
                     const Mesh& mesh, const JsonCursor& value) {
  const std::uint64_t size = axis_size(mesh, axis, value);
  if (const auto dim = cut_dimension(placement); dim && *dim >= entry.shape.size()) {
    throw value.error("shard of dimension ", *dim, ", but the tensor's shape is ",
                      tensor::to_string(entry.shape));
  }
  const bool has_held_at = entry.held_at.contains(axis);
  if (const auto why = misfit(placement, {entry.shape, entry.dtype, size, has_held_at})) {
    throw value.error(*why);
  }
}

}  // namespace ttrace::trace
