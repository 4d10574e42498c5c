#include "optimizer/settings.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <utility>

#include "base/text.h"
#include "measure/optimizer/hyperparameters.h"

namespace ttrace::optimizer {

OptimizerIndex::OptimizerIndex(const trace::Manifest& manifest) {
  for (const trace::OptimizerGroup& group : manifest.optimizer) {
    steps_.insert(group.step);
    for (const std::string& parameter : group.params) {
      const auto [found, fresh] = groups_.emplace(std::pair(group.step, parameter), Found{&group});
      if (!fresh) found->second.twice = true;
    }
  }
  for (const trace::TensorEntry& entry : manifest.tensors) {
    const trace::Kind kind = entry.key.kind;
    if (kind == trace::Kind::kParam || kind == trace::Kind::kMainGrad ||
        kind == trace::Kind::kOptimizerState) {
      tensors_.emplace(entry.key, &entry);
    }
  }
}

OptimizerIndex::Found OptimizerIndex::find(std::uint64_t step, const std::string& parameter) const {
  const auto found = groups_.find({step, parameter});
  return found == groups_.end() ? Found{} : found->second;
}

const trace::TensorEntry* OptimizerIndex::tensor(const trace::TensorKey& key) const {
  const auto found = tensors_.find(key);
  return found == tensors_.end() ? nullptr : found->second;
}

const trace::TensorEntry* OptimizerIndex::state(const trace::TensorKey& parameter,
                                                std::string_view state) const {
  trace::TensorKey key = parameter;
  key.kind = trace::Kind::kOptimizerState;
  key.name.append(".").append(state);
  return tensor(key);
}

namespace {

using trace::OptimizerGroup;

// Writes the fewest digits that identify the value, at most nine.
std::string digits(double value) {
  const std::string shorter = base::short_number(value);
  return std::strtod(shorter.c_str(), nullptr) == value ? shorter : base::nine_digits(value);
}

std::optional<double> setting_of(const OptimizerGroup& group, const std::string& name) {
  const auto found = group.numbers.find(name);
  if (found != group.numbers.end()) return found->second;
  if (name == "weight_decay" || name == "momentum" || name == "dampening") return 0;
  return std::nullopt;
}

bool flag_of(const OptimizerGroup& group, const std::string& name) {
  const auto found = group.switches.find(name);
  return found != group.switches.end() && found->second;
}

bool is_known(const std::string& type) {
  return type == "sgd" || type == "adam" || type == "adamw";
}

bool decays(const OptimizerGroup& group) { return setting_of(group, "weight_decay") != 0.0; }

bool same_optimizer(const OptimizerGroup& a, const OptimizerGroup& b) {
  if (a.type == b.type) return true;
  return a.type != "sgd" && b.type != "sgd" && !decays(a) && !decays(b);
}

bool is_plain_sgd(const OptimizerGroup& group) {
  return group.type == "sgd" && setting_of(group, "momentum") == 0.0 && !decays(group);
}

std::string words(const std::vector<double>& values) {
  if (values.empty()) return "none";
  std::string text;
  for (const double value : values) text += base::concat(text.empty() ? "" : ", ", digits(value));
  return text;
}

}  // namespace

std::vector<SettingPair> setting_differences(const OptimizerGroup& reference,
                                             const OptimizerGroup& candidate) {
  const bool known = is_known(reference.type) && is_known(candidate.type);
  if (known && !same_optimizer(reference, candidate)) {
    return {{"optimizer", reference.type, candidate.type}};
  }
  if (!known && reference.type != candidate.type) return {};
  std::vector<SettingPair> found;
  if (reference.betas.size() != candidate.betas.size() ||
      !std::equal(reference.betas.begin(), reference.betas.end(), candidate.betas.begin(),
                  measure::same_number)) {
    found.push_back({"betas", words(reference.betas), words(candidate.betas)});
  }
  std::set<std::string> names;
  std::set<std::string> flags;
  for (const auto* group : {&reference, &candidate}) {
    for (const auto& [name, value] : group->numbers) names.insert(name);
    for (const auto& [name, value] : group->switches) flags.insert(name);
  }
  for (const std::string& name : names) {
    const auto r = setting_of(reference, name);
    const auto c = setting_of(candidate, name);
    if (name == "updates" && is_plain_sgd(reference) && is_plain_sgd(candidate)) continue;
    if (r && c ? measure::same_number(*r, *c) : name != "clip_norm") continue;
    found.push_back(
        {name == "updates" ? "update" : name, r ? digits(*r) : "none", c ? digits(*c) : "none"});
  }
  for (const std::string& name : flags) {
    const bool r = flag_of(reference, name);
    if (r == flag_of(candidate, name)) continue;
    found.push_back({name, r ? "set" : "not set", r ? "not set" : "set"});
  }
  const bool both_clip =
      reference.numbers.contains("clip_norm") && candidate.numbers.contains("clip_norm");
  if (both_clip && reference.clipped_by != candidate.clipped_by) {
    const auto norm = [](const OptimizerGroup& group) {
      return group.clipped_by.empty() ? std::string("all gradients") : group.clipped_by;
    };
    found.push_back({"clipped_by", norm(reference), norm(candidate)});
  }
  std::sort(found.begin(), found.end(),
            [](const SettingPair& a, const SettingPair& b) { return a.name < b.name; });
  return found;
}

namespace {

using comparison::TensorComparison;
using judge::Outcome;
using trace::Kind;

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
  explicit Parameters(const std::vector<comparison::TensorComparison>& results) {
    for (std::size_t i = 0; i < results.size(); ++i) {
      const comparison::Pair& pair = results[i];
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

  // Adds a parameter that has no tensor, by its name.
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

std::vector<comparison::SettingDifference> compare_settings(
    const trace::Manifest& reference, const trace::Manifest& candidate,
    const comparison::Selection& selection, const std::vector<TensorComparison>& results) {
  if (reference.optimizer.empty() || candidate.optimizer.empty()) return {};  // no step of both
  const OptimizerIndex references(reference);
  const OptimizerIndex candidates(candidate);
  Parameters parameters(results);
  for (const trace::OptimizerGroup& group : reference.optimizer) {
    for (const std::string& name : group.params) parameters.add(group.step, name);
  }

  using Kindred = std::tuple<std::uint64_t, std::string, std::string, std::string>;
  std::map<Kindred, comparison::SettingDifference> found;
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
    std::vector<SettingPair> differences;
    if (r.group != nullptr && c.group != nullptr) {
      differences = setting_differences(*r.group, *c.group);
    } else if (known.update ||
               has_parameter(r.group != nullptr ? candidates : references, step,
                             r.group != nullptr ? parameter.candidate : parameter.reference)) {
      differences = {{comparison::kParameterGroup, r.group != nullptr ? r.group->type : "none",
                      c.group != nullptr ? c.group->type : "none"}};
    }
    for (SettingPair& one : differences) {
      comparison::SettingDifference& difference =
          found[{step, one.name, one.reference, one.candidate}];
      difference.step = step;
      difference.name = std::move(one.name);
      difference.reference = std::move(one.reference);
      difference.candidate = std::move(one.candidate);
      difference.parameters.push_back(known.name);
      if (known.update) difference.updates.push_back(*known.update);
    }
  }

  std::vector<comparison::SettingDifference> differences;
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
    if (difference.name == "clipped_by" && of_no_effect) continue;
    differences.push_back(std::move(difference));
  }
  return differences;
}

}  // namespace ttrace::optimizer
