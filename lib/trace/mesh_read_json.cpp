#include <algorithm>

#include "base/checked.h"
#include "base/number_text.h"
#include "trace/mesh_json.h"

namespace ttrace::trace {
namespace {

using base::JsonCursor;

constexpr std::uint64_t kLargestWorld = std::uint64_t{1} << 24;

}  // namespace

Mesh mesh_from(const JsonCursor& object) {
  object.allow_keys({"axes", "ranks"});
  Mesh mesh;
  std::uint64_t coordinates = 1;
  for (const JsonCursor& item : object.require("axes").items()) {
    item.allow_keys({"name", "size"});
    MeshAxis axis{item.require("name").as_string(), item.require("size").as_count()};
    if (const auto problem = name_problem(axis.name)) throw item.error(*problem);
    if (axis.size == 0) throw item.error("axis \"", axis.name, "\" has size 0");
    const auto same = [&axis](const MeshAxis& other) { return other.name == axis.name; };
    if (std::any_of(mesh.axes.begin(), mesh.axes.end(), same)) {
      throw item.error("axis \"", axis.name, "\" stands twice in one mesh");
    }
    const auto product = base::checked_mul(coordinates, axis.size);
    if (!product || *product > kLargestWorld) {
      throw item.error("the mesh has more than ", kLargestWorld, " coordinates");
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
  for (const JsonCursor& item : ranks->items()) mesh.ranks.push_back(item.as_count());
  if (mesh.ranks.size() != coordinates) {
    throw ranks->error("the axes have ", coordinates, " coordinates, the list has ",
                       mesh.ranks.size(), " ranks");
  }
  std::vector<std::uint64_t> sorted = mesh.ranks;
  std::sort(sorted.begin(), sorted.end());
  const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
  if (twice != sorted.end()) throw ranks->error("rank ", *twice, " stands at two coordinates");
  if (sorted.back() >= kLargestWorld) {
    throw ranks->error("rank ", sorted.back(), " is beyond the limit of ", kLargestWorld);
  }
  return mesh;
}

}  // namespace ttrace::trace
