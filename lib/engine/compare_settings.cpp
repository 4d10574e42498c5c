#include "engine/compare_settings.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "engine/optimizer_index.h"
#include "update/setting_differences.h"

namespace ttrace::engine {
namespace {

using report::Result;
using trace::Kind;
using verdict::Outcome;

// A parameter of one step, as each side calls it.
struct Parameter {
  std::uint64_t step = 0;
  std::string reference;
  std::string candidate;

  auto operator<=>(const Parameter&) const = default;
};

bool is_of_a_parameter(Kind kind) {
  return kind == Kind::kParam || kind == Kind::kMainGrad || kind == Kind::kParamAfterStep;
}

// What a comparison knows of one parameter.
struct Known {
  std::string name;  // its own, or that of the tensor made of it
  std::optional<std::size_t> update;
};

class Parameters {
 public:
  explicit Parameters(const std::vector<Pair>& pairs) {
    for (std::size_t i = 0; i < pairs.size(); ++i) {
      const Pair& pair = pairs[i];
      if (!is_of_a_parameter(pair.key.kind)) continue;
      if (pair.reference == nullptr || pair.candidate == nullptr) continue;
      for (const auto* r : layout::stored_in(*pair.reference)) {
        for (const auto* c : layout::stored_in(*pair.candidate)) {
          Known& known = known_[{pair.key.step, r->key.name, c->key.name}];
          known.name = pair.key.name;
          if (pair.key.kind == Kind::kParamAfterStep) known.update = i;
          renamed_.emplace(pair.key.step, r->key.name);
        }
      }
    }
  }

  // A parameter that no tensor tells of goes by its name.
  void add(std::uint64_t step, const std::string& name) {
    if (!renamed_.contains({step, name})) known_[{step, name, name}].name = name;
  }

  const std::map<Parameter, Known>& all() const { return known_; }

 private:
  std::map<Parameter, Known> known_;
  std::set<std::pair<std::uint64_t, std::string>> renamed_;  // of the reference
};

bool has_parameter(const OptimizerIndex& index, std::uint64_t step, const std::string& name) {
  trace::TensorKey key;
  key.step = step;
  key.kind = Kind::kParam;
  key.name = name;
  return index.tensor(key) != nullptr;
}

}  // namespace

std::vector<report::SettingDifference> compare_settings(const trace::Manifest& reference,
                                                        const trace::Manifest& candidate,
                                                        const Selection& selection,
                                                        const std::vector<Pair>& pairs,
                                                        const std::vector<Result>& results) {
  const OptimizerIndex references(reference);
  const OptimizerIndex candidates(candidate);
  Parameters parameters(pairs);
  for (const trace::OptimizerGroup& group : reference.optimizer) {
    for (const std::string& name : group.params) parameters.add(group.step, name);
  }

  using Kindred = std::tuple<std::uint64_t, std::string, std::string, std::string>;
  std::map<Kindred, report::SettingDifference> found;
  for (const auto& [parameter, known] : parameters.all()) {
    const std::uint64_t step = parameter.step;
    trace::TensorKey key;
    key.step = step;
    key.kind = Kind::kParamAfterStep;
    key.name = known.name;
    if (!selection.selects(key)) continue;
    if (known.update && results[*known.update].outcome == Outcome::kSkippedByRule) continue;
    if (!references.knows_step(step) || !candidates.knows_step(step)) continue;
    const OptimizerIndex::Found r = references.find(step, parameter.reference);
    const OptimizerIndex::Found c = candidates.find(step, parameter.candidate);
    if (r.twice || c.twice || (r.group == nullptr && c.group == nullptr)) continue;
    std::vector<update::SettingPair> differences;
    if (r.group != nullptr && c.group != nullptr) {
      differences = update::setting_differences(*r.group, *c.group);
    } else if (known.update ||
               has_parameter(r.group != nullptr ? candidates : references, step,
                             r.group != nullptr ? parameter.candidate : parameter.reference)) {
      differences = {{"parameter group", r.group != nullptr ? r.group->type : "none",
                      c.group != nullptr ? c.group->type : "none"}};
    }
    for (update::SettingPair& one : differences) {
      report::SettingDifference& difference = found[{step, one.name, one.reference, one.candidate}];
      difference.step = step;
      difference.name = std::move(one.name);
      difference.reference = std::move(one.reference);
      difference.candidate = std::move(one.candidate);
      difference.parameters.push_back(known.name);
      if (known.update) difference.updates.push_back(*known.update);
    }
  }

  std::vector<report::SettingDifference> differences;
  for (auto& [kindred, difference] : found) {
    std::sort(difference.parameters.begin(), difference.parameters.end());
    difference.parameters.erase(
        std::unique(difference.parameters.begin(), difference.parameters.end()),
        difference.parameters.end());
    std::sort(difference.updates.begin(), difference.updates.end());
    difference.updates.erase(std::unique(difference.updates.begin(), difference.updates.end()),
                             difference.updates.end());
    const bool one_sided = difference.reference == "none" || difference.candidate == "none";
    const bool of_no_effect =
        !difference.updates.empty() &&
        std::all_of(difference.updates.begin(), difference.updates.end(),
                    [&](std::size_t i) { return results[i].outcome == Outcome::kMatch; });
    if (difference.name == "clip_norm" && one_sided && of_no_effect) continue;
    differences.push_back(std::move(difference));
  }
  return differences;
}

}  // namespace ttrace::engine
