#include "layout/manifest_merge_optimizer.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "layout/describe_merge.h"

namespace ttrace::layout {
namespace {

using base::concat;

// "adam, betas [0.9, 0.999], lr 0.1, nesterov true"
std::string facts_words(const trace::OptimizerGroup& group) {
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

void OptimizerUnion::add(std::uint64_t rank, const trace::OptimizerGroup& group) {
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

std::vector<trace::OptimizerGroup> OptimizerUnion::groups() const {
  using Param = std::pair<std::uint64_t, std::string_view>;  // step and name
  std::map<Param, const Group*> seen;
  std::vector<trace::OptimizerGroup> whole;
  for (const Group& group : groups_) {
    for (const std::string& name : group.facts.params) {
      const auto [other, fresh] = seen.emplace(Param(group.facts.step, name), &group);
      if (fresh) continue;
      throw base::input_error(
          "optimizer, step ", group.facts.step, ": ", name, " is in two parameter groups, with ",
          facts_words(other->second->facts), " on ", rank_words(other->second->ranks), " and with ",
          facts_words(group.facts), " on ", rank_words(group.ranks));
    }
    whole.push_back(group.facts);
  }
  std::stable_sort(whole.begin(), whole.end(),
                   [](const auto& a, const auto& b) { return a.step < b.step; });
  return whole;
}

}  // namespace ttrace::layout
