// Applies the rules of a map to the names of the data flow.
#include <algorithm>
#include <map>

#include "layout/map_rules.h"

namespace ttrace::layout {
namespace {

using trace::Kind;

const std::vector<Kind> kOfValues{Kind::kInput,      Kind::kOutput, Kind::kGradInput,
                                  Kind::kGradOutput, Kind::kLoss,   Kind::kScalar};
const std::vector<Kind> kOfParameters{Kind::kParam,          Kind::kBuffer,
                                      Kind::kParamGrad,      Kind::kMainGrad,
                                      Kind::kParamAfterStep, Kind::kOptimizerState};

void add_missing(const std::vector<std::string>& names, std::vector<std::string>& list) {
  for (const std::string& name : names) {
    if (std::find(list.begin(), list.end(), name) == list.end()) list.push_back(name);
  }
}

std::vector<std::string> mapped_names(const std::vector<MapRule>& rules,
                                      const std::vector<std::string>& names,
                                      const std::vector<Kind>& kinds) {
  std::vector<std::string> mapped;
  for (const std::string& name : names) {
    const auto match = match_of(rules, name, kinds);
    if (!match) {
      add_missing({name}, mapped);
      continue;
    }
    for (const NamePattern& to : rules[match->rule].to) {
      add_missing({to.filled(match->captures)}, mapped);
    }
  }
  return mapped;
}

// A dropped tensor keeps its place in the data flow, under its name.
std::vector<MapRule> without_drops(const std::vector<MapRule>& rules) {
  std::vector<MapRule> kept;
  for (const MapRule& rule : rules) {
    if (!rule.drops()) kept.push_back(rule);
  }
  return kept;
}

void unite(const trace::Module& from, trace::Module& into) {
  if (from.computed_from || into.computed_from) {
    // Absent, it is the inputs.
    into.computed_from = into.computed_from.value_or(into.inputs);
    add_missing(from.computed_from.value_or(from.inputs), *into.computed_from);
  }
  add_missing(from.params, into.params);
  add_missing(from.inputs, into.inputs);
  add_missing(from.via, into.via);
  add_missing(from.computed_via, into.computed_via);
  if (from.outputs) {
    into.outputs = into.outputs.value_or(std::vector{into.name});
    add_missing(*from.outputs, *into.outputs);
  }
}

}  // namespace

std::vector<trace::Module> mapped_modules(const std::vector<MapRule>& all_rules,
                                          const std::vector<trace::Module>& modules) {
  const std::vector<MapRule> rules = without_drops(all_rules);
  if (rules.empty()) return modules;
  std::vector<trace::Module> mapped;
  std::map<std::string, std::size_t> made;  // by name: what several become is one producer
  for (const trace::Module& module : modules) {
    trace::Module here = module;
    here.params = mapped_names(rules, module.params, kOfParameters);
    here.inputs = mapped_names(rules, module.inputs, kOfValues);
    if (module.computed_from) {
      here.computed_from = mapped_names(rules, *module.computed_from, kOfValues);
    }
    if (module.outputs) here.outputs = mapped_names(rules, *module.outputs, kOfValues);
    for (std::string& name : mapped_names(rules, {module.name}, kOfValues)) {
      const auto [at, fresh] = made.emplace(name, mapped.size());
      if (fresh) {
        here.name = std::move(name);
        mapped.push_back(here);
        continue;
      }
      unite(here, mapped[at->second]);
    }
  }
  return mapped;
}

}  // namespace ttrace::layout
