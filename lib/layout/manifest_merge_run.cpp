#include "layout/manifest_merge_run.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "layout/describe_merge.h"

namespace ttrace::layout {
namespace {

using base::concat;

template <typename Value>
bool has(const std::vector<Value>& list, const Value& value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

bool goes_by_rows(const trace::TensorEntry& entry) {
  return entry.key.kind == trace::Kind::kIndex ||
         std::any_of(entry.placements.begin(), entry.placements.end(), [](const auto& placement) {
           return std::holds_alternative<trace::Rows>(placement.second);
         });
}

// Without what `other` lacks.
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
  return text;
}

}  // namespace

void RunMerge::add(std::uint64_t rank, trace::RunFacts facts) {
  unfinished_.insert(facts.unfinished.begin(), facts.unfinished.end());
  if (facts.recorded) recorded_.emplace(rank, *facts.recorded);
  if (ranks_++ == 0) first_ = std::move(facts);
}

bool RunMerge::asked(std::uint64_t rank, const trace::TensorEntry& entry) const {
  const auto recorded = recorded_.find(rank);
  if (recorded == recorded_.end() || unfinished_.contains(rank) || goes_by_rows(entry))
    return false;
  return has(recorded->second.kinds, entry.key.kind) && has(recorded->second.steps, entry.key.step);
}

trace::RunFacts RunMerge::facts() const {
  trace::RunFacts whole = first_;
  whole.unfinished.assign(unfinished_.begin(), unfinished_.end());
  whole.recorded.reset();
  if (recorded_.size() < ranks_) return whole;
  const bool any_records = std::any_of(recorded_.begin(), recorded_.end(),
                                       [](const auto& one) { return !one.second.kinds.empty(); });
  for (const auto& [rank, one] : recorded_) {
    // A rank that was asked for nothing takes nothing from the others.
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
      Facts{group.step, group.type, group.numbers, group.switches, group.betas}, groups_.size());
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

}  // namespace ttrace::layout
