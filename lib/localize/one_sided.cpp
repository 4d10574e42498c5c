#include "localize/one_sided.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "base/display_limits.h"
#include "base/text.h"
#include "localize/frontier.h"

namespace ttrace::localize {
namespace {

using judge::Outcome;

// Counts tensors of one trace, and how many of them the other lacks.
struct Tally {
  std::size_t all = 0;
  std::size_t lacking = 0;

  void add(bool is_lacking) {
    ++all;
    lacking += is_lacking ? 1 : 0;
  }
  bool whole() const { return all == lacking; }
};

// Calls visit("a"), visit("a.b"), visit("a.b.c") for "a.b.c[1]".
template <typename Visit>
void for_each_prefix(std::string_view name, Visit visit) {
  name = trace::module_of_value(name);
  for (std::size_t dot = name.find('.'); dot != std::string_view::npos;
       dot = name.find('.', dot + 1)) {
    visit(name.substr(0, dot));
  }
  visit(name);
}

// Sets the groups of nodes with `outcome`.
void add_groups(const std::vector<FlowNode>& nodes, const std::vector<Outcome>& outcomes,
                Outcome outcome, std::vector<std::string>& groups) {
  if (std::find(outcomes.begin(), outcomes.end(), outcome) == outcomes.end()) return;
  std::map<std::uint64_t, Tally> steps;
  using Microbatch = std::pair<std::uint64_t, std::uint64_t>;
  std::map<Microbatch, Tally> microbatches;
  std::set<std::uint64_t> steps_with_others;  // where one micro-batch is there, at least in part
  std::map<std::pair<std::uint64_t, trace::Kind>, Tally> kinds;
  std::map<std::pair<std::uint64_t, std::string>, Tally, std::less<>> modules;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const bool lacking = outcomes[i] == outcome;
    if (judge::is_one_sided(outcomes[i]) && !lacking) continue;  // of the other trace
    const trace::TensorKey& key = nodes[i].key;
    steps[key.step].add(lacking);
    kinds[{key.step, key.kind}].add(lacking);
    if (key.microbatch) microbatches[{key.step, *key.microbatch}].add(lacking);
    for_each_prefix(key.name, [&](std::string_view prefix) {
      modules[{key.step, std::string(prefix)}].add(lacking);
    });
  }

  for (const auto& [microbatch, tally] : microbatches) {
    if (!tally.whole()) steps_with_others.insert(microbatch.first);
  }
  const auto is_whole_microbatch = [&](const trace::TensorKey& key) {
    return key.microbatch && steps_with_others.contains(key.step) &&
           microbatches[{key.step, *key.microbatch}].whole();
  };
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (outcomes[i] != outcome) continue;
    const trace::TensorKey& key = nodes[i].key;
    const Tally& kind = kinds[{key.step, key.kind}];
    if (steps[key.step].whole()) {
      groups[i] = base::concat("step ", key.step);
    } else if (is_whole_microbatch(key)) {
      groups[i] = base::concat("micro-batch ", *key.microbatch, " (step ", key.step, ")");
    } else if (kind.whole() && kind.all > 1) {
      groups[i] = base::concat("every ", kind_name(key.kind), " of step ", key.step);
    } else {
      groups[i] = to_string(key);
      bool found = false;
      for_each_prefix(key.name, [&](std::string_view prefix) {
        const auto tally = modules.find(std::pair(key.step, std::string(prefix)));
        if (found || !tally->second.whole()) return;
        found = true;
        groups[i] = base::concat(prefix, " (step ", key.step, ")");
      });
    }
  }
}

// The names of two whole models are compared in pairs; beyond this nobody reads the answers.
constexpr std::size_t kMostLookedUp = 200;

using Alike = std::pair<trace::Kind, tensor::Shape>;
using NamesByAlike = std::map<Alike, std::vector<std::string>>;

NamesByAlike names_with(Outcome outcome, const std::vector<comparison::TensorComparison>& results) {
  NamesByAlike names;
  for (const comparison::TensorComparison& result : results) {
    if (result.outcome != outcome) continue;
    std::vector<std::string>& there = names[{result.key.kind, result.shape}];
    const bool known = std::find(there.begin(), there.end(), result.key.name) != there.end();
    if (!known && there.size() < kMostLookedUp) there.push_back(result.key.name);
  }
  return names;
}

}  // namespace

std::vector<std::string> one_sided_groups(const std::vector<FlowNode>& nodes,
                                          const std::vector<Outcome>& outcomes) {
  std::vector<std::string> groups(nodes.size());
  for (const Outcome outcome : {Outcome::kMissing, Outcome::kExtra}) {
    add_groups(nodes, outcomes, outcome, groups);
  }
  return groups;
}

void find_nearest_names(std::vector<comparison::TensorComparison>& results) {
  const NamesByAlike missing = names_with(Outcome::kMissing, results);
  const NamesByAlike extra = names_with(Outcome::kExtra, results);
  std::map<std::pair<Alike, std::string>, std::vector<std::string>> known;
  for (comparison::TensorComparison& result : results) {
    const bool is_missing = result.outcome == Outcome::kMissing;
    if (!is_missing && result.outcome != Outcome::kExtra) continue;
    const NamesByAlike& others = is_missing ? extra : missing;
    const Alike alike{result.key.kind, result.shape};
    const auto candidates = others.find(alike);
    if (candidates == others.end()) continue;
    const auto found = known.find({alike, result.key.name});
    if (found != known.end()) {
      result.nearest = found->second;
    } else if (known.size() < kMostLookedUp) {
      result.nearest =
          base::nearest_names(result.key.name, candidates->second, base::kShown.few_names);
      known.emplace(std::pair(alike, result.key.name), result.nearest);
    }
  }
}

}  // namespace ttrace::localize
