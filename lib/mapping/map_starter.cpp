#include "mapping/map_starter.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <tuple>

#include "base/error.h"
#include "base/text.h"
#include "comparison/padding.h"
#include "comparison/pairing.h"
#include "comparison/run_facts.h"
#include "judge/slices.h"
#include "layout/map_apply.h"
#include "mapping/longer_tensors.h"
#include "mapping/match_parameters.h"
#include "mapping/match_values.h"
#include "mapping/name_match.h"

namespace ttrace::mapping {
namespace {

using layout::ViewPtr;
using measure::TensorRef;
using trace::Kind;

constexpr std::size_t kMostNotes = 100;

// A trace with its tensors and names indexed.
struct IndexedTrace {
  const trace::Source* source = nullptr;
  std::vector<ViewPtr> tensors;
  std::set<std::string> parameters;  // names of all parameters
  std::vector<KnownName> names;      // each name once for each of its kinds
};

bool is_of_parameter(Kind kind) {
  return kind == Kind::kParam || kind == Kind::kParamGrad || kind == Kind::kMainGrad ||
         kind == Kind::kParamAfterStep;
}

IndexedTrace index_trace(const trace::Source& source) {
  IndexedTrace indexed{&source, comparison::tensors_of(source.manifest()), {}, {}};
  std::set<std::pair<std::string, Kind>> names;
  for (const ViewPtr& view : indexed.tensors) {
    names.emplace(view->key.name, view->key.kind);
    if (is_of_parameter(view->key.kind)) indexed.parameters.insert(view->key.name);
  }
  for (const auto& [name, kind] : names) indexed.names.push_back({name, kind});
  return indexed;
}

// Orders the occurrences of a tensor that was recorded several times. The first one is used.
auto first_time(const ViewPtr& view) {
  const trace::TensorKey& key = view->key;
  return std::tuple(key.step, key.microbatch.value_or(0), key.call, key.copy);
}

// The first tensor of `kind` for each name of a parameter.
std::map<std::string, ViewPtr> parameters_of(const IndexedTrace& indexed, Kind kind) {
  std::map<std::string, ViewPtr> found;
  for (const ViewPtr& view : indexed.tensors) {
    if (view->key.kind != kind) continue;
    const auto [at, fresh] = found.emplace(view->key.name, view);
    if (!fresh && first_time(view) < first_time(at->second)) at->second = view;
  }
  return found;
}

// Parameters in the order in which modules use them; otherwise in the order of recording, or by
// name.
struct Ordered {
  std::vector<ViewPtr> views;
  std::set<std::string> by_name;  // those that are ordered only by their name
};

Ordered in_order_of_use(const IndexedTrace& indexed,
                        const std::map<std::string, ViewPtr>& parameters) {
  std::map<std::string, std::size_t> use;
  for (const trace::Module& module : indexed.source->manifest().modules) {
    for (const std::string& name : module.params) use.emplace(name, use.size());
  }
  Ordered ordered;
  for (const auto& [name, view] : parameters) {
    ordered.views.push_back(view);
    if (!use.contains(name) && !view->order) ordered.by_name.insert(name);
  }
  const auto place = [&use](const ViewPtr& view) {
    const auto found = use.find(view->key.name);
    return std::tuple(found == use.end() ? use.size() : found->second,
                      view->order.value_or(std::uint64_t(-1)));
  };
  std::stable_sort(ordered.views.begin(), ordered.views.end(),
                   [&place](const ViewPtr& a, const ViewPtr& b) { return place(a) < place(b); });
  return ordered;
}

std::vector<TensorRef> without_names(const IndexedTrace& indexed, const Ordered& ordered,
                                     const std::set<std::string>& names) {
  std::vector<TensorRef> kept;
  for (const ViewPtr& view : ordered.views) {
    if (!names.contains(view->key.name)) kept.emplace_back(indexed.source, view);
  }
  return kept;
}

ModuleValues values_of(const IndexedTrace& indexed) {
  ModuleValues values;
  for (const ViewPtr& view : indexed.tensors) {
    const trace::TensorKey& key = view->key;
    if (!is_module_value(key.kind)) continue;
    const std::string module(trace::module_of_value(key.name));
    const std::pair which(key.kind, key.name.substr(module.size()));
    const auto [at, fresh] = values[module].emplace(which, TensorRef(indexed.source, view));
    if (!fresh && first_time(view) < first_time(at->second.view)) {
      at->second = TensorRef(indexed.source, view);
    }
  }
  return values;
}

std::string listed(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += base::concat(text.empty() ? "" : ", ", name);
  return text;
}

// How a match makes its names meet: "in 2 groups along dimension 0 of layers.*.q.weight, ...".
std::string form_of(const NameMatch& match) {
  std::string text;
  const auto add = [&text](const auto&... parts) {
    text += base::concat(text.empty() ? "" : ", ", parts...);
  };
  if (match.reference.size() > 1 || match.candidate.size() > 1) {
    if (match.groups > 1) add("in ", match.groups, " groups");
    add(match.same ? "equal to each of" : base::concat("along dimension ", match.dim, " of"));
  } else {
    add("equal to");
  }
  const bool joins_candidates = match.candidate.size() > 1;
  std::vector<std::string> patterns;
  for (const std::string& name : joins_candidates ? match.candidate : match.reference) {
    patterns.push_back(judge::name_pattern(name));
  }
  text += base::concat(" ", listed(patterns));
  if (!match.transpose.empty()) add("transposed");
  return text;
}

// Adds a note on a layer that is matched differently from all others like it.
void add_unlike_ones(const std::vector<NameMatch>& matches, std::vector<std::string>& notes) {
  using OfForm = std::map<std::string, std::vector<const NameMatch*>>;
  std::map<std::string, OfForm> alike;  // by the pattern of the single name
  for (const NameMatch& match : matches) {
    if (!match.by_values) continue;
    const bool one_is_candidate = match.candidate.size() == 1;
    const std::string& one = one_is_candidate ? match.candidate.front() : match.reference.front();
    alike[judge::name_pattern(one)][form_of(match)].push_back(&match);
  }
  for (const auto& [pattern, forms] : alike) {
    if (forms.size() < 2) continue;
    const auto usual = std::max_element(
        forms.begin(), forms.end(),
        [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); });
    for (const auto& [form, of_form] : forms) {
      // With two against two, nobody knows which are unlike.
      if (form == usual->first || 2 * of_form.size() > usual->second.size()) continue;
      for (const NameMatch* match : of_form) {
        const std::string& one =
            match->candidate.size() == 1 ? match->candidate.front() : match->reference.front();
        notes.push_back(base::concat(one, " is ", form, "; ", usual->second.size(),
                                     " others like it are ", usual->first,
                                     ": is this layer the bug? The rule would hide it"));
      }
    }
  }
}

std::vector<std::string> notes_of(const std::vector<NameMatch>& parameters,
                                  const Ordered& reference, const Ordered& candidate) {
  const auto in_order = [](const std::vector<std::string>& names, const Ordered& ordered) {
    std::vector<std::ptrdiff_t> places;
    for (const ViewPtr& view : ordered.views) {
      const auto at = std::find(names.begin(), names.end(), view->key.name);
      if (at == names.end()) continue;
      if (ordered.by_name.contains(*at)) return true;
      places.push_back(at - names.begin());
    }
    return std::is_sorted(places.begin(), places.end());
  };
  std::vector<std::string> notes;
  add_unlike_ones(parameters, notes);
  for (const NameMatch& match : parameters) {
    const bool one_is_candidate = match.candidate.size() == 1;
    const std::vector<std::string>& several = one_is_candidate ? match.reference : match.candidate;
    const std::string& one = one_is_candidate ? match.candidate.front() : match.reference.front();
    if (!match.by_values) {
      notes.push_back(base::concat("by shape and order alone: ", listed(match.candidate), " -> ",
                                   listed(match.reference)));
    } else if (!in_order(several, one_is_candidate ? reference : candidate)) {
      notes.push_back(base::concat(one, " holds ", listed(several),
                                   " in this order, which is not the order in which the other "
                                   "side uses them: is that meant, or were they exchanged?"));
    }
  }
  return notes;
}

// Matches optimizer states like the parameters they are named after.
void add_optimizer_state(const IndexedTrace& reference, const IndexedTrace& candidate,
                         std::vector<NameMatch>& matches) {
  std::map<std::string, std::set<std::string>> states[2];  // by parameter, for each side
  const auto add = [](const IndexedTrace& indexed,
                      std::map<std::string, std::set<std::string>>& of) {
    for (const KnownName& known : indexed.names) {
      const std::size_t dot = known.name.rfind('.');
      if (known.kind != Kind::kOptimizerState || dot == std::string::npos) continue;
      of[known.name.substr(0, dot)].insert(known.name.substr(dot));
    }
  };
  add(reference, states[0]);
  add(candidate, states[1]);
  const std::vector<NameMatch> parameters = matches;
  for (const NameMatch& match : parameters) {
    for (const std::string& state : states[1][match.candidate.front()]) {
      if (state == ".step" && (match.reference.size() > 1 || match.candidate.size() > 1)) continue;
      NameMatch of_state = match;
      of_state.kinds = {Kind::kOptimizerState};
      bool complete = true;
      for (std::string& name : of_state.reference) {
        complete = complete && states[0][name].contains(state);
        name += state;
      }
      for (std::string& name : of_state.candidate) {
        complete = complete && states[1][name].contains(state);
        name += state;
      }
      if (complete) matches.push_back(std::move(of_state));
    }
  }
}

comparison::Side mapped(const IndexedTrace& indexed, const std::vector<layout::MapRule>& rules) {
  return {indexed.source, layout::apply_map(rules, "the starter", indexed.tensors).tensors};
}

// Adds the names that the rules leave unmatched on each side and notes on tensors that they do not
// make as long as the other side's, or a note if the rules do not fit.
void add_unmatched(const IndexedTrace& reference, const IndexedTrace& candidate,
                   layout::MapFile& file) {
  std::vector<comparison::Pair> pairs;
  try {
    pairs = comparison::pair_traces(mapped(reference, file.reference),
                                    mapped(candidate, file.candidate), {});
  } catch (const base::InputError& error) {
    file.notes.push_back(base::concat("the rules do not fit as they are: ", error.what()));
    return;
  }
  const auto add = [](const ViewPtr& view, std::vector<KnownName>& names) {
    for (const trace::TensorEntry* entry : layout::stored_in(*view)) {
      names.push_back({entry->key.name, entry->key.kind});
    }
  };
  std::vector<KnownName> of_reference;
  std::vector<KnownName> of_candidate;
  for (const comparison::Pair& pair : pairs) {
    const bool both = pair.reference != nullptr && pair.candidate != nullptr;
    // Two different arguments of a module may have the same position.
    const bool unlike = both && is_module_value(pair.key.kind) && !comparison::excess_of(pair) &&
                        !comparison::incomparable_reason(pair).empty();
    if (both && !unlike) continue;
    if (pair.reference != nullptr) add(pair.reference, of_reference);
    if (pair.candidate != nullptr) add(pair.candidate, of_candidate);
  }
  file.unmatched_reference = dropping_rules(of_reference, reference.names);
  file.unmatched_candidate = dropping_rules(of_candidate, candidate.names);
  const auto modules = layout::mapped_modules(file.reference, reference.source->manifest().modules);
  for (std::string& note : notes_on_longer(*reference.source, *candidate.source, modules, pairs)) {
    file.notes.push_back(std::move(note));
  }
}

}  // namespace

layout::MapFile start_map(const trace::Source& reference, const trace::Source& candidate,
                          unsigned threads) {
  comparison::require_sound_layouts(reference);
  comparison::require_sound_layouts(candidate);
  const IndexedTrace references = index_trace(reference);
  const IndexedTrace candidates = index_trace(candidate);

  // Prefer the parameters themselves, if both traces have them: their values identify them best.
  std::map<std::string, ViewPtr> reference_parameters;
  std::map<std::string, ViewPtr> candidate_parameters;
  for (const Kind kind : {Kind::kParam, Kind::kParamAfterStep, Kind::kMainGrad, Kind::kParamGrad}) {
    reference_parameters = parameters_of(references, kind);
    candidate_parameters = parameters_of(candidates, kind);
    if (!reference_parameters.empty() && !candidate_parameters.empty()) break;
  }
  const Ordered reference_order = in_order_of_use(references, reference_parameters);
  const Ordered candidate_order = in_order_of_use(candidates, candidate_parameters);
  ParameterMatches parameters =
      match_parameters(without_names(references, reference_order, candidates.parameters),
                       without_names(candidates, candidate_order, references.parameters), threads);
  layout::MapFile file;
  file.notes = notes_of(parameters.matches, reference_order, candidate_order);
  file.ambiguous = std::move(parameters.ambiguous);

  std::vector<NameMatch> known = parameters.matches;
  for (const std::string& name : references.parameters) {
    if (candidates.parameters.contains(name)) known.push_back({{name}, {name}});
  }
  ValueMatches values = match_values(values_of(references), values_of(candidates), known, threads);
  file.ambiguous.merge(values.ambiguous);

  std::vector<NameMatch> matches = std::move(parameters.matches);
  add_optimizer_state(references, candidates, matches);
  matches.insert(matches.end(), values.matches.begin(), values.matches.end());
  StarterRules rules = rules_of(matches, references.names, candidates.names);
  file.reference = std::move(rules.reference);
  file.candidate = std::move(rules.candidate);
  add_unmatched(references, candidates, file);
  if (file.notes.size() > kMostNotes) {
    const std::size_t more = file.notes.size() - kMostNotes;
    file.notes.resize(kMostNotes);
    file.notes.push_back(base::concat("and ", more, " more"));
  }
  return file;
}

}  // namespace ttrace::mapping
