#include <algorithm>
#include <optional>
#include <string_view>

#include "base/bytes.h"
#include "base/text.h"
#include "trace/layout_json.h"

namespace ttrace::trace {
namespace {

using base::JsonCursor;

// Returns `expected "replicate" or an object with shard, partial or only`, with all kinds.
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

tensor::DType dtype_from(const JsonCursor& value) {
  const std::string name = value.as_string();
  const auto dtype = tensor::parse_dtype(name);
  if (!dtype) throw value.error("unknown dtype \"", base::printable(name), "\"");
  return *dtype;
}

tensor::DType precision_from(const JsonCursor& value) {
  const std::string name = value.as_string();
  const auto dtype = tensor::parse_precision(name);
  if (!dtype) throw value.error("unknown dtype \"", base::printable(name), "\"");
  return *dtype;
}

Kind kind_from(const JsonCursor& value) {
  const std::string name = value.as_string();
  const auto kind = parse_kind(name);
  if (!kind) throw value.error("unknown kind \"", base::printable(name), "\"");
  return *kind;
}

tensor::Shape shape_from(const JsonCursor& value, tensor::DType dtype) {
  tensor::Shape shape = value.as_counts();
  if (shape.size() > tensor::kMostDimensions) {
    throw value.error(shape.size(), " dimensions, at most ", tensor::kMostDimensions,
                      " are possible");
  }
  if (!tensor::byte_count(shape, dtype)) {
    throw value.error("the size in bytes of ", tensor::to_string(shape), " ",
                      tensor::dtype_name(dtype), " overflows 64 bits");
  }
  return shape;
}

const Mesh& find_mesh(const JsonCursor& object, const std::map<std::string, Mesh>& meshes,
                      std::string& name) {
  const auto member = object.find("mesh");
  if (member) name = member->as_string();
  const auto mesh = meshes.find(name);
  if (mesh == meshes.end()) {
    throw member.value_or(object).error("there is no mesh \"", base::printable(name), "\"");
  }
  return mesh->second;
}

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
  mesh.ranks = ranks->as_counts();
  if (mesh.ranks.size() != coordinates) {
    throw ranks->error("the axes have ", coordinates, " coordinates, the list has ",
                       mesh.ranks.size(), " ranks");
  }
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
  std::vector<std::uint64_t> held = list.as_counts();
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

void read_layout(const JsonCursor& object, const Mesh& mesh, TensorEntry& entry) {
  if (const auto held_at = object.find("held_at")) {
    for (const auto& [axis, list] : held_at->members()) {
      entry.held_at.emplace(axis, held_coordinates_from(list, axis, mesh));
    }
  }
  if (const auto placements = object.find("placements")) {
    for (const auto& [axis, value] : placements->members()) {
      Placement placement = placement_from(value);
      check_placement(placement, axis, entry, mesh, value);
      entry.placements.emplace(axis, std::move(placement));
    }
  }
}

}  // namespace ttrace::trace
