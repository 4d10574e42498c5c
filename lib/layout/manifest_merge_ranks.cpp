// What the ranks of a run recorded: the facts of the run, the parameter groups of the optimizer,
// and which ranks have a tensor.
#include "layout/manifest_merge_ranks.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "layout/manifest_merge.h"
#include "layout/mesh.h"

namespace ttrace::layout {
namespace {

using base::concat;
using base::exact_number;

template <typename Value>
bool has(const std::vector<Value>& list, const Value& value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

bool goes_by_rows(const trace::TensorEntry& entry) {
  return entry.key.kind == trace::Kind::kIndex || rows_placement(entry) != nullptr;
}

// Removes the values that `other` lacks.
template <typename Value>
void keep_common(std::vector<Value>& list, const std::vector<Value>& other) {
  std::erase_if(list, [&other](const Value& value) { return !has(other, value); });
}

void add_modules(const trace::Recorded& one, trace::Recorded& whole) {
  if (!one.modules) whole.modules.reset();
  if (!whole.modules) return;
  for (const std::string& pattern : *one.modules) {
    if (!has(*whole.modules, pattern)) whole.modules->push_back(pattern);
  }
}

// "adam, betas [0.9, 0.999], lr 0.1, nesterov true"
std::string describe_group(const trace::OptimizerGroup& group) {
  std::string text = group.type;
  if (group.betas.size() == 2) {
    text +=
        concat(", betas [", exact_number(group.betas[0]), ", ", exact_number(group.betas[1]), "]");
  }
  for (const auto& [name, value] : group.numbers) {
    text += concat(", ", name, " ", exact_number(value));
  }
  for (const auto& [name, value] : group.switches) {
    text += concat(", ", name, value ? " true" : " false");
  }
  if (!group.clipped_by.empty()) text += concat(", clipped_by ", group.clipped_by);
  return text;
}

using RankNumbers = std::vector<std::uint64_t>;
// For every axis a flag for every coordinate.
using Flags = std::vector<std::vector<bool>>;

RankNumbers listed(const std::vector<bool>& holding) {
  RankNumbers coordinates;
  for (std::size_t c = 0; c < holding.size(); ++c) {
    if (holding[c]) coordinates.push_back(c);
  }
  return coordinates;
}

// Flags the coordinates of the ranks that recorded the tensor.
Flags recorded_by(const RankNumbers& recorders, const PresentRanks& present) {
  Flags recorded;
  for (const trace::MeshAxis& axis : present.mesh().axes) recorded.emplace_back(axis.size, false);
  for (const std::uint64_t rank : recorders) {
    const RankNumbers& coordinates = present.coordinates().at(rank);
    for (std::size_t a = 0; a < coordinates.size(); ++a) recorded[a][coordinates[a]] = true;
  }
  return recorded;
}

Flags holding_of(const trace::TensorEntry& entry, const Flags& recorded,
                 const PresentRanks& present) {
  Flags holding = recorded;
  for (std::size_t a = 0; a < holding.size(); ++a) {
    const std::string& axis = present.mesh().axes[a].name;
    const std::uint64_t size = present.mesh().axes[a].size;
    const trace::Placement& placement = placement_on(entry, axis);
    if (const auto given = entry.held_at.find(axis); given != entry.held_at.end()) {
      holding[a].assign(size, false);
      for (const std::uint64_t coordinate : given->second) holding[a].at(coordinate) = true;
    } else if (const auto* only = std::get_if<trace::Only>(&placement)) {
      holding[a].assign(size, false);
      holding[a].at(only->coordinate) = true;
    } else if (cuts(placement)) {
      holding[a].assign(size, true);
    } else if (std::holds_alternative<trace::Partial>(placement)) {
      for (std::uint64_t c = 0; c < size; ++c) {
        if (!present.any_at(a, c)) holding[a][c] = true;
      }
    }
  }
  return holding;
}

bool holds(const Flags& holding, const RankNumbers& coordinates) {
  for (std::size_t a = 0; a < coordinates.size(); ++a) {
    if (!holding[a][coordinates[a]]) return false;
  }
  return true;
}

// Whether the placements leave the coordinates no element, so that there was nothing to record.
bool shard_is_empty(const trace::TensorEntry& entry, const trace::Mesh& mesh, const Flags& holding,
                    const RankNumbers& coordinates) {
  std::vector<tensor::Ranges> left(entry.shape.size());
  for (std::size_t d = 0; d < left.size(); ++d) append(left[d], {0, entry.shape[d]});
  try {
    for (std::size_t a = 0; a < mesh.axes.size(); ++a) {
      const RankNumbers held = listed(holding[a]);
      const auto index = static_cast<std::size_t>(
          std::lower_bound(held.begin(), held.end(), coordinates[a]) - held.begin());
      const trace::Placement& placement = placement_on(entry, mesh.axes[a].name);
      if (const auto* flat = std::get_if<trace::Flat>(&placement)) {
        if (flat->ranges.at(index).start == flat->ranges[index].stop) return true;
      } else {
        apply_cut(placement, held.size(), index, left);
      }
    }
  } catch (const base::InputError&) {
    return false;  // the layout contradicts itself; lint reports it
  }
  return std::any_of(left.begin(), left.end(),
                     [](const tensor::Ranges& held) { return held.empty(); });
}

base::InputError missing_shard(const trace::TensorEntry& entry, const RankNumbers& recorders,
                               const Flags& recorded, const PresentRanks& present,
                               std::uint64_t rank) {
  const std::string key = trace::to_string(entry.key);
  const RankNumbers& coordinates = present.coordinates().at(rank);
  for (std::size_t a = 0; a < coordinates.size(); ++a) {
    const trace::MeshAxis& axis = present.mesh().axes[a];
    if (recorded[a][coordinates[a]]) continue;
    const RankNumbers there = listed(recorded[a]);
    return base::input_error(
        key, ": ", cuts(placement_on(entry, axis.name)) ? "cut over" : "held along", " axis ",
        axis.name, ", but only its ", there.size() == 1 ? "coordinate " : "coordinates ",
        tensor::to_string(there), " of ", axis.size, " recorded it (", describe_ranks(recorders),
        "); the part of rank ", rank, " is missing");
  }
  return base::input_error(key, ": recorded by ", describe_ranks(recorders),
                           " alone, which are no product of coordinates of ",
                           describe_mesh(present.mesh()), "; rank ", rank,
                           " between them did not run that module or has no such gradient");
}

void check_own_held_at(const trace::TensorEntry& entry, const RankNumbers& recorders,
                       const Flags& holding, const PresentRanks& present) {
  for (const std::uint64_t rank : recorders) {
    const RankNumbers& coordinates = present.coordinates().at(rank);
    for (std::size_t a = 0; a < coordinates.size(); ++a) {
      const std::string& axis = present.mesh().axes[a].name;
      if (holding[a][coordinates[a]] || !entry.held_at.contains(axis)) continue;
      throw base::input_error(trace::to_string(entry.key), ": rank ", rank,
                              " recorded it at coordinate ", coordinates[a], " of axis ", axis,
                              ", but its held_at names ", tensor::to_string(listed(holding[a])),
                              " alone");
    }
  }
}

// The ranks that should have a shard by the layout and recorded none, ascending.
RankNumbers lacking_ranks(const trace::TensorEntry& entry, const RankNumbers& recorders,
                          const Flags& holding, const PresentRanks& present) {
  RankNumbers lacking;
  for (const auto& [rank, coordinates] : present.coordinates()) {
    if (!std::binary_search(recorders.begin(), recorders.end(), rank) &&
        holds(holding, coordinates) &&
        !shard_is_empty(entry, present.mesh(), holding, coordinates)) {
      lacking.push_back(rank);
    }
  }
  return lacking;
}

}  // namespace

void RunMerge::add(std::uint64_t rank, trace::RunFacts facts) {
  unfinished_.insert(facts.unfinished.begin(), facts.unfinished.end());
  if (facts.recorded) recorded_.emplace(rank, *facts.recorded);
  // std::nullopt is less than any number.
  updates_before_ = std::max(updates_before_, facts.updates_before);
  for (const trace::Incomplete& one : facts.incomplete) {
    incomplete_[{one.tensors, one.reason}].insert(one.ranks.begin(), one.ranks.end());
  }
  if (ranks_++ == 0) {
    first_ = std::move(facts);
  } else if (!first_.products.any()) {
    first_.products = facts.products;
  }
}

bool RunMerge::asked(std::uint64_t rank, const trace::TensorEntry& entry) const {
  const auto recorded = recorded_.find(rank);
  if (recorded == recorded_.end() || unfinished_.contains(rank) || goes_by_rows(entry))
    return false;
  return has(recorded->second.kinds, entry.key.kind) && has(recorded->second.steps, entry.key.step);
}

trace::RunFacts RunMerge::facts() const {
  trace::RunFacts whole = first_;
  whole.updates_before = updates_before_;
  whole.unfinished.assign(unfinished_.begin(), unfinished_.end());
  whole.incomplete.clear();
  for (const auto& [key, ranks] : incomplete_) {
    whole.incomplete.push_back({key.first, {ranks.begin(), ranks.end()}, key.second});
  }
  whole.recorded.reset();
  if (recorded_.size() < ranks_) return whole;
  const bool any_records = std::any_of(recorded_.begin(), recorded_.end(),
                                       [](const auto& one) { return !one.second.kinds.empty(); });
  for (const auto& [rank, one] : recorded_) {
    // A rank that was asked for nothing does not narrow what the others have in common.
    if (any_records && one.kinds.empty()) continue;
    if (!whole.recorded) whole.recorded = one;
    keep_common(whole.recorded->kinds, one.kinds);
    keep_common(whole.recorded->steps, one.steps);
    add_modules(one, *whole.recorded);
  }
  return whole;
}

void OptimizerMerge::add(std::uint64_t rank, const trace::OptimizerGroup& group) {
  const auto [known, fresh] = known_.emplace(
      Facts{group.step, group.type, group.numbers, group.switches, group.betas, group.clipped_by},
      groups_.size());
  if (fresh) {
    groups_.push_back({group, {}, {}});
    groups_.back().facts.params.clear();
  }
  Group& whole = groups_[known->second];
  if (whole.ranks.empty() || whole.ranks.back() != rank) whole.ranks.push_back(rank);
  for (const std::string& name : group.params) {
    if (whole.params.insert(name).second) whole.facts.params.push_back(name);
  }
}

std::vector<trace::OptimizerGroup> OptimizerMerge::groups() const {
  using Param = std::pair<std::uint64_t, std::string_view>;  // step and name
  std::map<Param, const Group*> seen;
  std::vector<trace::OptimizerGroup> whole;
  for (const Group& group : groups_) {
    for (const std::string& name : group.facts.params) {
      const auto [other, fresh] = seen.emplace(Param(group.facts.step, name), &group);
      if (fresh) continue;
      throw base::input_error(
          "optimizer, step ", group.facts.step, ": ", name, " is in two parameter groups, with ",
          describe_group(other->second->facts), " on ", describe_ranks(other->second->ranks),
          " and with ", describe_group(group.facts), " on ", describe_ranks(group.ranks));
    }
    whole.push_back(group.facts);
  }
  std::stable_sort(whole.begin(), whole.end(),
                   [](const auto& a, const auto& b) { return a.step < b.step; });
  return whole;
}

PresentRanks::PresentRanks(const trace::Mesh& mesh, const std::vector<std::uint64_t>& ranks)
    : mesh_(&mesh) {
  for (const trace::MeshAxis& axis : mesh.axes) any_.emplace_back(axis.size, false);
  const std::uint64_t size = mesh_size(mesh);
  for (std::uint64_t i = 0; i < size; ++i) {
    const std::uint64_t rank = rank_at(mesh, i);
    if (!std::binary_search(ranks.begin(), ranks.end(), rank)) continue;
    const RankNumbers coordinates = coordinates_at(mesh, i);
    for (std::size_t a = 0; a < coordinates.size(); ++a) any_[a][coordinates[a]] = true;
    coordinates_.emplace(rank, coordinates);
  }
}

void set_ranks(trace::TensorEntry& entry, const std::vector<std::uint64_t>& recorders,
               const PresentRanks& present, const RunMerge& run) {
  for (const std::uint64_t rank : recorders) {
    if (present.coordinates().contains(rank)) continue;
    throw base::input_error(trace::to_string(entry.key), ": rank ", rank,
                            " recorded it, but does not lie on its mesh \"", entry.mesh, "\", ",
                            describe_mesh(present.mesh()));
  }
  const Flags recorded = recorded_by(recorders, present);
  const Flags holding = holding_of(entry, recorded, present);
  check_own_held_at(entry, recorders, holding, present);
  entry.absent_on = {};
  for (const std::uint64_t rank : lacking_ranks(entry, recorders, holding, present)) {
    if (!run.knows(rank)) throw missing_shard(entry, recorders, recorded, present, rank);
    if (run.asked(rank, entry)) entry.absent_on.change().push_back(rank);
  }
  for (std::size_t a = 0; a < holding.size(); ++a) {
    const std::string& axis = present.mesh().axes[a].name;
    if (std::holds_alternative<trace::Only>(placement_on(entry, axis))) continue;
    RankNumbers coordinates = listed(holding[a]);
    if (coordinates.size() < holding[a].size()) entry.held_at.emplace(axis, std::move(coordinates));
  }
}

}  // namespace ttrace::layout
