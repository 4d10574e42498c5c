// Applies the rules of a map to tensors, and to the names of the data flow.
#include "layout/map_apply.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "base/error.h"
#include "base/text.h"
#include "layout/map_rules.h"

namespace ttrace::layout {
namespace {

using Captures = NamePattern::Captures;

ViewPtr named(const ViewPtr& view, std::string name) {
  if (const auto problem = trace::name_problem(name)) {
    throw base::input_error(base::printable(name), ": ", *problem);
  }
  View renamed = *view;
  renamed.key.name = std::move(name);
  return std::make_shared<View>(std::move(renamed));
}

ViewPtr resized(const MapRule& rule, ViewPtr view) {
  if (rule.trim) view = trimmed(view, rule.trim->dim, rule.trim->size);
  if (rule.pad) view = padded(view, rule.pad->dim, rule.pad->size);
  if (!rule.transpose.empty()) view = transposed(view, rule.transpose);
  return view;
}

// The tensors of one concatenation, in the order of the rule's patterns.
struct Gathered {
  Captures captures;
  std::vector<ViewPtr> parts;  // null: not there
};
using GatheredKey = std::tuple<std::size_t, Captures, trace::TensorKey>;

class Mapping {
 public:
  Mapping(const std::vector<MapRule>& rules, const std::string& file)
      : rules_(rules), file_(file), used_(rules.size(), false) {}

  void add(const ViewPtr& view) {
    const auto match = match_of(rules_, view->key.name, {view->key.kind});
    if (!match) return put_unchanged(view);
    used_[match->rule] = true;
    const MapRule& rule = rules_[match->rule];
    if (rule.drops()) {
      mark_used_by(view, match->rule + 1);
      mapped_.dropped.emplace(view->key, DroppedBy{match->rule, rule.pointer, rule.drop_reason});
      return put_unchanged(view);
    }
    if (rule.from.size() > 1) return gather(view, *match);
    in_rule(rule, [&] {
      const ViewPtr one = resized(rule, view);
      if (rule.to.size() == 1 || rule.same) {
        for (const NamePattern& to : rule.to) put(named(one, to.filled(match->captures)));
        return;
      }
      const std::vector<ViewPtr> parts =
          split(one, rule.dim, rule.to.size(), rule.sizes, rule.groups);
      for (std::size_t i = 0; i < parts.size(); ++i) {
        put(named(parts[i], rule.to[i].filled(match->captures)));
      }
    });
  }

  Mapped finish(const std::vector<ViewPtr>& tensors) {
    for (const auto& [key, gathered] : gathered_) join(rules_[std::get<0>(key)], gathered);
    for (std::size_t r = 0; r < rules_.size(); ++r) {
      if (used_[r]) continue;
      std::vector<std::string> names;
      for (const ViewPtr& view : tensors) names.push_back(view->key.name);
      const std::string& text = rules_[r].from[0].text();
      throw base::input_error(file_, ": ", rules_[r].pointer, rules_[r].drops() ? "/drop" : "/from",
                              ": no tensor that an earlier rule leaves matches ",
                              base::printable(text), base::nearest_hint(text, names));
    }
    return std::move(mapped_);
  }

 private:
  // A rule counts as used, and not as a typing error, if earlier rules drop all of its tensors.
  void mark_used_by(const ViewPtr& view, std::size_t first) {
    for (std::size_t r = first; r < rules_.size(); ++r) {
      if (used_[r] || !is_of(rules_[r].kinds, view->key.kind)) continue;
      used_[r] = std::any_of(
          rules_[r].from.begin(), rules_[r].from.end(),
          [&](const NamePattern& pattern) { return pattern.match(view->key.name).has_value(); });
    }
  }

  template <typename Work>
  void in_rule(const MapRule& rule, Work work) const {
    try {
      work();
    } catch (const base::InputError& error) {
      throw error.in(base::concat(file_, ": ", rule.pointer));
    }
  }

  void put(ViewPtr view) {
    const auto [earlier, fresh] = made_.emplace(view->key, view);
    if (!fresh) {
      throw base::input_error("two tensors would be ", to_string(view->key), ": ",
                              origin(*earlier->second), " and ", origin(*view));
    }
    mapped_.tensors.push_back(std::move(view));
  }

  void put_unchanged(const ViewPtr& view) {
    try {
      put(view);
    } catch (const base::InputError& error) {
      throw error.in(file_);
    }
  }

  static std::string origin(const View& view) { return stored_in(view).front()->key.name; }

  void gather(const ViewPtr& view, const RuleMatch& match) {
    trace::TensorKey rest = view->key;
    rest.name.clear();
    Gathered& gathered = gathered_[{match.rule, match.captures, rest}];
    gathered.captures = match.captures;
    gathered.parts.resize(rules_[match.rule].from.size());
    if (gathered.parts[match.pattern] != nullptr) {
      throw base::input_error(file_, ": ", rules_[match.rule].pointer, ": ", to_string(view->key),
                              " and ", to_string(gathered.parts[match.pattern]->key),
                              " would be the same part");
    }
    gathered.parts[match.pattern] = view;
  }

  void join(const MapRule& rule, const Gathered& gathered) {
    std::string lacking;
    for (std::size_t i = 0; i < gathered.parts.size(); ++i) {
      if (gathered.parts[i] == nullptr) lacking = rule.from[i].filled(gathered.captures);
    }
    if (lacking.empty()) {
      in_rule(rule, [&] {
        put(named(resized(rule, concatenated(gathered.parts, rule.dim, rule.groups)),
                  rule.to[0].filled(gathered.captures)));
      });
      return;
    }
    for (const ViewPtr& part : gathered.parts) {
      if (part == nullptr) continue;
      mapped_.warnings.push_back(base::concat(file_, ": ", rule.pointer, ": ", to_string(part->key),
                                              " is left as it is: there is no ", lacking,
                                              " to join it with"));
      put_unchanged(part);
    }
  }

  const std::vector<MapRule>& rules_;
  const std::string& file_;
  std::vector<bool> used_;
  std::map<GatheredKey, Gathered> gathered_;
  std::map<trace::TensorKey, ViewPtr> made_;
  Mapped mapped_;
};

using trace::Kind;

const std::vector<Kind> kOfValues{Kind::kInput,      Kind::kOutput, Kind::kGradInput,
                                  Kind::kGradOutput, Kind::kLoss,   Kind::kScalar};
const std::vector<Kind> kOfParameters{
    Kind::kParam,          Kind::kBuffer,         Kind::kParamGrad,      Kind::kMainGrad,
    Kind::kParamAfterStep, Kind::kOptimizerState, Kind::kBufferAfterStep};

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

void add_to(const trace::Module& from, trace::Module& into) {
  if (from.computed_from || into.computed_from) {
    // An absent computed_from stands for the inputs.
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

Mapped apply_map(const std::vector<MapRule>& rules, const std::string& file,
                 const std::vector<ViewPtr>& tensors) {
  if (rules.empty()) return {tensors, {}, {}};
  Mapping mapping(rules, file);
  for (const ViewPtr& view : tensors) mapping.add(view);
  return mapping.finish(tensors);
}

std::vector<trace::Module> mapped_modules(const std::vector<MapRule>& all_rules,
                                          const std::vector<trace::Module>& modules) {
  const std::vector<MapRule> rules = without_drops(all_rules);
  if (rules.empty()) return modules;
  std::vector<trace::Module> mapped;
  std::map<std::string, std::size_t> made;  // by name: modules that get one name become one
                                            // producer
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
      add_to(here, mapped[at->second]);
    }
  }
  return mapped;
}

}  // namespace ttrace::layout
