#include "mapping/name_match.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "base/text.h"
#include "mapping/map_starter.h"

namespace ttrace::mapping {
namespace {

using layout::MapRule;
using layout::NamePattern;

// A rule of one side between concrete names.
struct Concrete {
  std::vector<std::string> from;
  std::vector<std::string> to;
  MapRule form;  // the rule without its names
};

// Names of the captures that replace the numbers of a name, from the left.
constexpr std::string_view kLetters = "ijklmnop";

bool is_number(std::string_view text) {
  return !text.empty() &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

// The components of a module's dotted name, without the text in brackets after it.
std::vector<std::string> components_of(const std::string& name) {
  std::vector<std::string> components(1);
  for (const char c : trace::module_of_value(name)) {
    if (c == '.') {
      components.emplace_back();
    } else {
      components.back() += c;
    }
  }
  return components;
}

std::vector<std::string> numbers_in(const std::string& name) {
  std::vector<std::string> numbers;
  for (const std::string& component : components_of(name)) {
    if (is_number(component) && numbers.size() < kLetters.size()) numbers.push_back(component);
  }
  return numbers;
}

// Replaces every number of `name` that is among `numbers` by a capture: that of the same position
// if the numbers are equal, else the first equal one.
std::string templated(const std::string& name, const std::vector<std::string>& numbers) {
  std::string text;
  std::size_t place = 0;
  for (const std::string& component : components_of(name)) {
    if (!text.empty()) text += '.';
    const std::size_t here = is_number(component) ? place++ : numbers.size();
    const auto first = std::find(numbers.begin(), numbers.end(), component);
    if (!is_number(component) || first == numbers.end()) {
      text += component;
      continue;
    }
    const std::size_t which = here < numbers.size() && numbers[here] == component
                                  ? here
                                  : static_cast<std::size_t>(first - numbers.begin());
    text += base::concat("{", kLetters.substr(which, 1), "}");
  }
  return text + name.substr(trace::module_of_value(name).size());
}

std::vector<std::string> all_templated(const std::vector<std::string>& names,
                                       const std::vector<std::string>& numbers) {
  std::vector<std::string> texts;
  for (const std::string& name : names) texts.push_back(templated(name, numbers));
  return texts;
}

std::vector<NamePattern> patterns_of(const std::vector<std::string>& texts) {
  return {texts.begin(), texts.end()};
}

// Whether the names can be written as patterns, which have no escape for braces.
bool is_writable(const Concrete& rule) {
  const auto plain = [](const std::string& name) {
    return name.find_first_of("{}") == std::string::npos;
  };
  return std::all_of(rule.from.begin(), rule.from.end(), plain) &&
         std::all_of(rule.to.begin(), rule.to.end(), plain);
}

// Rules that differ only in numbers.
struct Group {
  std::vector<std::string> from;  // templates
  std::vector<std::string> to;
  std::vector<Concrete> rules;
};

// Whether one pattern rule can replace the rules of the group without matching other names.
bool is_sound(const Group& group, const std::vector<KnownName>& names) {
  std::set<std::string, std::less<>> own;
  for (const Concrete& rule : group.rules) own.insert(rule.from.begin(), rule.from.end());
  const std::vector<NamePattern> patterns = patterns_of(group.from);
  for (const NamePattern& pattern : patterns) {
    if (pattern.captures() != patterns.front().captures()) return false;
    for (const KnownName& known : names) {
      if (!layout::is_of(group.rules.front().form.kinds, known.kind)) continue;
      if (own.contains(known.name) || own.contains(trace::module_of_value(known.name))) continue;
      if (pattern.match(known.name)) return false;
    }
  }
  return true;
}

std::vector<MapRule> generalised(const std::vector<Concrete>& rules,
                                 const std::vector<KnownName>& names) {
  using Form = std::tuple<std::vector<trace::Kind>, std::uint64_t, std::uint64_t,
                          std::vector<std::uint64_t>, std::vector<std::size_t>, bool>;
  using Key = std::tuple<std::vector<std::string>, std::vector<std::string>, Form>;
  std::map<Key, std::size_t> known;
  std::vector<Group> groups;
  for (const Concrete& rule : rules) {
    if (!is_writable(rule)) continue;
    const std::vector<std::string> numbers = numbers_in(rule.from.front());
    std::vector<std::string> from = all_templated(rule.from, numbers);
    std::vector<std::string> to = all_templated(rule.to, numbers);
    const MapRule& form = rule.form;
    const Form same_form{form.kinds, form.dim, form.groups, form.sizes, form.transpose, form.same};
    const auto [at, fresh] = known.emplace(Key{from, to, same_form}, groups.size());
    if (fresh) groups.push_back({std::move(from), std::move(to), {}});
    groups[at->second].rules.push_back(rule);
  }
  std::vector<MapRule> made;
  const auto add = [&made](MapRule rule, const std::vector<std::string>& from,
                           const std::vector<std::string>& to) {
    rule.from = patterns_of(from);
    rule.to = patterns_of(to);
    made.push_back(std::move(rule));
  };
  for (const Group& group : groups) {
    if (is_sound(group, names)) {
      add(group.rules.front().form, group.from, group.to);
    } else {
      for (const Concrete& rule : group.rules) add(rule.form, rule.from, rule.to);
    }
  }
  // The first rule that matches applies, so the most specific rules come first: about one value of
  // a module, then about its values of some kinds, then about all of them.
  const auto width = [](const MapRule& rule) {
    if (rule.from.front().text().find('[') != std::string::npos) return 0;
    return rule.kinds.empty() ? 2 : 1;
  };
  std::stable_sort(made.begin(), made.end(),
                   [&width](const MapRule& a, const MapRule& b) { return width(a) < width(b); });
  return made;
}

bool changes_nothing(const NameMatch& match) {
  return match.reference == match.candidate && match.transpose.empty();
}

Concrete concrete(const NameMatch& match, const std::vector<std::string>& from,
                  const std::vector<std::string>& to) {
  Concrete rule{from, to, {}};
  rule.form.kinds = match.kinds;
  rule.form.same = match.same;
  rule.form.transpose = match.transpose;
  if (!match.same && (from.size() > 1 || to.size() > 1)) {
    rule.form.dim = match.dim;
    rule.form.groups = match.groups;
    if (to.size() > 1) rule.form.sizes = match.sizes;
  }
  return rule;
}

}  // namespace

StarterRules rules_of(const std::vector<NameMatch>& matches,
                      const std::vector<KnownName>& reference_names,
                      const std::vector<KnownName>& candidate_names) {
  std::vector<Concrete> reference;
  std::vector<Concrete> candidate;
  for (const NameMatch& match : matches) {
    if (changes_nothing(match)) continue;
    // If one tensor has several names in the candidate, the rule belongs to the reference.
    if (match.same && match.candidate.size() > 1) {
      reference.push_back(concrete(match, match.reference, match.candidate));
    } else {
      candidate.push_back(concrete(match, match.candidate, match.reference));
    }
  }
  return {generalised(reference, reference_names), generalised(candidate, candidate_names)};
}

std::vector<MapRule> dropping_rules(const std::vector<KnownName>& unmatched,
                                    const std::vector<KnownName>& names) {
  std::map<std::string, std::vector<trace::Kind>> kinds;
  for (const KnownName& one : unmatched) kinds[one.name].push_back(one.kind);
  std::vector<Concrete> rules;
  for (auto& [name, of_name] : kinds) {
    std::sort(of_name.begin(), of_name.end());
    of_name.erase(std::unique(of_name.begin(), of_name.end()), of_name.end());
    Concrete rule{{name}, {}, {}};
    rule.form.kinds = of_name;
    rules.push_back(std::move(rule));
  }
  return generalised(rules, names);
}

}  // namespace ttrace::mapping
