#include "layout/manifest_merge_uneven.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>
#include <variant>
#include <vector>

#include "layout/mesh.h"

namespace ttrace::layout {
namespace {

using Extents = std::vector<std::uint64_t>;

// The axis, by number, that alone cuts dimension `dim`, if it does so by a plain shard.
std::optional<std::size_t> plain_cut(const trace::TensorEntry& entry, const trace::Mesh& mesh,
                                     std::uint64_t dim) {
  std::optional<std::size_t> found;
  for (std::size_t a = 0; a < mesh.axes.size(); ++a) {
    const trace::Placement& placement = placement_on(entry, mesh.axes[a].name);
    if (!trace::cuts(placement) || trace::cut_dimension(placement).value_or(dim) != dim) continue;
    const auto* shard = std::get_if<trace::Shard>(&placement);
    if (found || shard == nullptr || shard->sizes) return std::nullopt;
    found = a;
  }
  return found;
}

// The extent of dimension `dim` at each coordinate of the axis; 0 where no rank has the tensor and
// `may_lack` says that this is an empty shard. Nothing where ranks contradict each other, or where
// the sum is no number.
std::optional<Extents> extents_along(const trace::Mesh& mesh, std::size_t axis, std::uint64_t dim,
                                     const ShapesByRank& shapes, bool may_lack) {
  const std::uint64_t ranks = mesh.axes[axis].size;
  std::vector<std::optional<std::uint64_t>> found(ranks);
  for (const auto& [rank, shape] : shapes) {
    std::optional<std::uint64_t>& extent = found[coordinates_of(mesh, rank)[axis]];
    const std::uint64_t own = shape[dim] / ranks;
    if (shape[dim] % ranks != 0 || extent.value_or(own) != own) return std::nullopt;
    extent = own;
  }
  Extents extents;
  std::uint64_t left = std::numeric_limits<std::int64_t>::max();
  for (const auto& extent : found) {
    if ((!extent && !may_lack) || extent.value_or(0) > left) return std::nullopt;
    extents.push_back(extent.value_or(0));
    left -= extents.back();
  }
  return extents;
}

bool are_on(const trace::Mesh& mesh, const ShapesByRank& shapes, std::size_t dimensions) {
  const std::vector<std::uint64_t> ranks = ranks_of({{"", mesh}});
  return std::all_of(shapes.begin(), shapes.end(), [&](const auto& of) {
    return of.second.size() == dimensions &&
           std::binary_search(ranks.begin(), ranks.end(), of.first);
  });
}

std::uint64_t total(const Extents& extents) {
  return std::accumulate(extents.begin(), extents.end(), std::uint64_t{0});
}

}  // namespace

bool set_whole_extents(trace::TensorEntry& entry, const trace::Mesh& mesh,
                       const ShapesByRank& shapes) {
  const tensor::Shape& first = shapes.begin()->second;
  if (!are_on(mesh, shapes, first.size())) return false;
  const bool is_index = entry.key.kind == trace::Kind::kIndex;
  trace::TensorEntry whole = entry;
  whole.shape = first;
  for (std::uint64_t dim = 0; dim < first.size(); ++dim) {
    const bool differ = std::any_of(shapes.begin(), shapes.end(),
                                    [&](const auto& of) { return of.second[dim] != first[dim]; });
    if (!differ && !is_index) continue;
    const auto axis = plain_cut(entry, mesh, dim);
    const auto extents = axis ? extents_along(mesh, *axis, dim, shapes, is_index) : std::nullopt;
    if (!extents && differ) return false;
    if (!extents || (!differ && total(*extents) == first[dim])) continue;
    whole.shape[dim] = total(*extents);
    whole.placements[mesh.axes[*axis].name] = trace::Shard{dim, *extents};
  }
  entry = std::move(whole);
  return true;
}

void take_extent_of_index(const trace::TensorEntry& entry, const trace::Rows& rows,
                          const trace::Mesh& mesh, const trace::TensorEntry& index,
                          const ShapesByRank& of_index, ShapesByRank& shapes) {
  if (rows.dim >= entry.shape.size() || !are_on(mesh, of_index, 1) ||
      !are_on(mesh, shapes, entry.shape.size())) {
    return;
  }
  for (const auto& [rank, shape] : shapes) {
    const auto found = of_index.find(rank);
    if (found == of_index.end() || found->second[0] != shape[rows.dim]) return;
  }
  const auto axis = plain_cut(index, mesh, 0);
  const auto extents = axis ? extents_along(mesh, *axis, 0, of_index, true) : std::nullopt;
  if (!extents) return;
  for (auto& [rank, shape] : shapes) shape[rows.dim] = total(*extents);
}

}  // namespace ttrace::layout
