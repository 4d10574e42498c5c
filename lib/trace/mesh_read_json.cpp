#include <algorithm>

#include "base/bytes.h"
#include "base/text.h"
#include "trace/limits.h"
#include "trace/mesh_json.h"

namespace ttrace::trace {
namespace {

using base::JsonCursor;

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

}  // namespace ttrace::trace
