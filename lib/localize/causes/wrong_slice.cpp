#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include "base/message.h"
#include "layout/mesh.h"
#include "localize/causes/trial.h"

namespace ttrace::localize {
namespace {

constexpr std::uint64_t kFewestElementsOfSlice = 8;  // of a shard: fewer are no evidence
// A distance that is estimated from sketches may be this many times too large.
constexpr double kSlackOfSlice = 3;

// The ranges into which the candidate's shards cut a dimension, by their start; empty if it is not
// cut, or if ranges overlap (a shard of several boxes).
std::map<std::uint64_t, std::uint64_t> ranges_along(const Case& the_case, std::size_t dim) {
  std::map<std::uint64_t, std::uint64_t> ranges;
  for (const measure::BlockStats& block : the_case.measurement->blocks) {
    if (block.owner->boxes.size() != 1) return {};
    const tensor::Box& box = block.owner->boxes.front();
    const auto [at, fresh] = ranges.emplace(box.origin[dim], box.extent[dim]);
    if (at->second != box.extent[dim]) return {};
  }
  if (ranges.size() < 2) return {};
  return ranges;
}

// Where in the reference the slices [start, start + length) of the candidate begin; nothing if
// nowhere, or at several places.
std::optional<std::uint64_t> offset_of_block(const std::vector<SliceSums>& slices,
                                             std::uint64_t start, std::uint64_t length,
                                             double most2) {
  std::optional<std::uint64_t> found;
  for (std::uint64_t at = 0; at + length <= slices.size(); ++at) {
    double left2 = 0;
    for (std::uint64_t i = 0; i < length && left2 <= most2; ++i) {
      left2 += squared_distance(slices[start + i].candidate, slices[at + i].reference);
    }
    if (left2 > most2) continue;
    if (found) return std::nullopt;
    found = at;
  }
  return found;
}

}  // namespace

std::vector<Cause> find_wrong_slice(const Case& the_case) {
  const Profile* profile = profile_of(the_case);
  if (profile == nullptr) return {};
  const tensor::Shape& shape = the_case.reference.view->shape;
  const std::uint64_t elements = tensor::element_count(shape).value_or(0);
  const double most = the_case.exact ? 0 : kSlackOfSlice * the_case.tolerance.allowed_norm();
  const double most2 = std::min(std::max(most * most, profile->d2 * 1e-12), profile->d2 / 16);
  for (std::size_t dim = 0; dim < shape.size(); ++dim) {
    const auto ranges = ranges_along(the_case, dim);
    const std::vector<SliceSums>& slices = profile->slices[dim];
    if (ranges.empty() || slices.empty()) continue;
    SliceMap map(shape[dim]);
    std::optional<base::Message> which;
    bool other_offset = false;  // not just another rank's shard
    bool all = true;
    for (const auto& [start, length] : ranges) {
      double d2 = 0;
      for (std::uint64_t i = 0; i < length; ++i) {
        d2 += slices[start + i].d2;
        map[start + i] = static_cast<std::int64_t>(start + i);
      }
      if (d2 <= most2) continue;
      const bool enough = length * (elements / shape[dim]) >= kFewestElementsOfSlice;
      const auto at = enough ? offset_of_block(slices, start, length, most2) : std::nullopt;
      if (!at || *at == start) {
        all = false;
        break;
      }
      const auto known = ranges.find(*at);
      other_offset = other_offset || known == ranges.end() || known->second != length;
      for (std::uint64_t i = 0; i < length; ++i)
        map[start + i] = static_cast<std::int64_t>(*at + i);
      const auto ranks = ranks_in(the_case, slab(shape, dim, start, length));
      if (which) continue;
      which = base::Message{
          "{holder} {holders?holds|hold} indices {from} to {to} of {reference} in the place of "
          "{first} to {last}",
          {{"holder", ranks.empty() ? "a shard" : layout::describe_ranks(ranks)},
           {"holders", std::max<std::uint64_t>(ranks.size(), 1)},
           {"from", *at},
           {"to", *at + length - 1},
           {"first", start},
           {"last", start + length - 1}}};
    }
    if (!all || !other_offset || !which) continue;
    const double left = distance_when_mapped(the_case, dim, map).left;
    if (!explains(the_case, left, {shape[dim]})) {
      reject(the_case, "wrong_slice", left);
      continue;
    }
    return {cause_that_leaves(
        the_case, left, "wrong_slice", "",
        {"along dimension {dim} {which}",
         {{"dim", std::uint64_t{dim}}, {"which", rendered_for(the_case, *which)}}},
        {which->values.begin(), which->values.end()})};
  }
  return {};
}

}  // namespace ttrace::localize
