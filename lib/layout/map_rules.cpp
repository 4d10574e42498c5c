#include "layout/map_rules.h"

#include <algorithm>
#include <tuple>

#include "base/error.h"
#include "base/names.h"
#include "base/text.h"
#include "layout/view.h"

namespace ttrace::layout {

std::vector<std::string> one_or_more(const base::JsonCursor& rule, std::string_view key) {
  const base::JsonCursor value = rule.require(key);
  if (value.is_string()) return {value.as_string()};
  std::vector<std::string> values;
  for (const base::JsonCursor& item : value.items()) values.push_back(item.as_string());
  if (values.empty()) throw value.error("expected at least one");
  return values;
}

std::vector<trace::Kind> kinds_of(const base::JsonCursor& rule) {
  const auto value = rule.find("kind");
  if (!value) return {};
  std::vector<trace::Kind> kinds;
  for (const std::string& name : one_or_more(rule, "kind")) {
    const auto kind = trace::parse_kind(name);
    if (!kind) {
      std::vector<std::string> known;
      for (const trace::Kind each : trace::kAllKinds) known.emplace_back(kind_name(each));
      throw value->error("unknown kind \"", base::printable(name), "\"",
                         base::nearest_hint(name, known));
    }
    kinds.push_back(*kind);
  }
  return kinds;
}

bool is_of(const std::vector<trace::Kind>& kinds, trace::Kind kind) {
  return kinds.empty() || std::find(kinds.begin(), kinds.end(), kind) != kinds.end();
}

std::optional<RuleMatch> match_of(const std::vector<MapRule>& rules, std::string_view name,
                                  const std::vector<trace::Kind>& kinds) {
  for (std::size_t r = 0; r < rules.size(); ++r) {
    const bool concerned = std::any_of(
        kinds.begin(), kinds.end(), [&](trace::Kind kind) { return is_of(rules[r].kinds, kind); });
    if (!concerned) continue;
    for (std::size_t p = 0; p < rules[r].from.size(); ++p) {
      if (auto captures = rules[r].from[p].match(name)) {
        return RuleMatch{r, p, std::move(*captures)};
      }
    }
  }
  return std::nullopt;
}

namespace {

using Captures = NamePattern::Captures;
using Match = RuleMatch;

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
  // A rule whose tensors are all dropped is no typing error.
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

  void gather(const ViewPtr& view, const Match& match) {
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

}  // namespace

Mapped apply_map(const std::vector<MapRule>& rules, const std::string& file,
                 const std::vector<ViewPtr>& tensors) {
  if (rules.empty()) return {tensors, {}, {}};
  Mapping mapping(rules, file);
  for (const ViewPtr& view : tensors) mapping.add(view);
  return mapping.finish(tensors);
}

}  // namespace ttrace::layout
