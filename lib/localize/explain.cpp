#include "localize/explain.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"
#include "localize/causes/cause.h"
#include "localize/causes/stale.h"
#include "localize/describe_difference.h"
#include "localize/describe_layout.h"
#include "localize/module_graph.h"
#include "localize/phase.h"

namespace ttrace::localize {
namespace {

using base::concat;
using comparison::TensorComparison;
using judge::Outcome;

constexpr std::size_t kMostDependenciesNamed = 4;

// The module whose code produced the tensor.
const trace::Module* module_of(const ModuleGraph& graph, const trace::TensorKey& key) {
  if (const auto& users = graph.users(key.name); !users.empty()) return users.front();
  return graph.find(trace::module_of_value(key.name));
}

std::string describe_dependency(const TensorComparison& dependency,
                                const TensorComparison& finding) {
  const bool same_name = dependency.key.name == finding.key.name;
  const bool is_param = finding.key.kind == trace::Kind::kMainGrad ||
                        finding.key.kind == trace::Kind::kParamAfterStep ||
                        finding.key.kind == trace::Kind::kParamGrad;
  std::string who = same_name ? (is_param ? "of the same parameter" : "of the same module")
                              : concat("of ", dependency.key.name);
  std::string how;
  switch (dependency.outcome) {
    case Outcome::kMatch:
      how = "matches";
      break;
    case Outcome::kBelowNoiseFloor:
      how = "is below the noise floor";
      break;
    case Outcome::kSkippedByRule:
      how = "was skipped";
      break;
    case Outcome::kRoutingFlip:
      how = "differs near ties alone";
      break;
    case Outcome::kAfterRoutingFlip:
    case Outcome::kNotJudged:
      how = "was not judged";
      break;
    case Outcome::kNotRecorded:
      how = "was not recorded";
      break;
    default:
      how = concat("is ", outcome_name(dependency.outcome));
      break;
  }
  return concat(kind_name(dependency.key.kind), " ", who, " ", how);
}

std::string describe_before(const std::vector<std::size_t>& depends_on,
                            const TensorComparison& finding,
                            const std::vector<TensorComparison>& results) {
  if (depends_on.empty()) return "nothing that was recorded comes before it";
  std::vector<std::size_t> named = depends_on;
  // What did not match is worth more room than what did, and what is near more than the model's own
  // inputs, on which all depends.
  const auto room = [&results](std::size_t i) {
    const bool far = phase_of(results[i].key) == Phase::kInput;
    return results[i].outcome != Outcome::kMatch ? 0 : far ? 2 : 1;
  };
  std::stable_sort(named.begin(), named.end(),
                   [&room](std::size_t a, std::size_t b) { return room(a) < room(b); });
  // Micro-batches say the same, and are counted.
  std::vector<std::pair<std::string, std::size_t>> said;
  for (const std::size_t i : named) {
    std::string words = describe_dependency(results[i], finding);
    if (const layout::ViewPtr& view = results[i].candidate; view != nullptr) {
      for (const auto& [axis, placement] : layout::stored_in(*view).front()->placements) {
        if (!std::holds_alternative<trace::Partial>(placement)) continue;
        words += concat(" as a ", to_string(placement), " over ", axis);
      }
    }
    const auto known = std::find_if(said.begin(), said.end(),
                                    [&words](const auto& one) { return one.first == words; });
    if (known == said.end()) {
      said.emplace_back(std::move(words), 1);
    } else {
      ++known->second;
    }
  }
  std::string text;
  std::size_t more = named.size();
  for (std::size_t i = 0; i < said.size() && i < kMostDependenciesNamed; ++i) {
    text += concat(text.empty() ? "" : "; ", said[i].first);
    if (said[i].second > 1) text += concat(" (", said[i].second, " of them)");
    more -= said[i].second;
  }
  return more > 0 ? concat(text, "; and ", more, " more") : text;
}

// Axes over which something was added up between what the pair was computed from and the pair: a
// dependency is a partial sum over the axis, or cut over it, and the pair is neither.
std::map<std::string, std::string> axes_reduced_over(
    const std::vector<std::size_t>& depends_on, const comparison::Pair& pair,
    const std::vector<comparison::TensorComparison>& results) {
  const auto placed = [](const comparison::Pair& of,
                         const std::string& axis) -> const trace::Placement* {
    for (const auto* entry : layout::stored_in(*of.candidate)) {
      const auto found = entry->placements.find(axis);
      if (found != entry->placements.end()) return &found->second;
    }
    return nullptr;
  };
  const auto is_whole = [](const trace::Placement* placement) {
    return placement == nullptr || std::holds_alternative<trace::Replicate>(*placement);
  };
  std::map<std::string, std::string> found;
  for (const std::size_t node : depends_on) {
    const trace::Kind kind = results[node].key.kind;
    if (results[node].candidate == nullptr || kind == trace::Kind::kParam ||
        kind == trace::Kind::kOptimizerState) {
      continue;
    }
    for (const auto* entry : layout::stored_in(*results[node].candidate)) {
      for (const auto& [axis, placement] : entry->placements) {
        const auto* partial = std::get_if<trace::Partial>(&placement);
        if ((partial == nullptr && !trace::cut_dimension(placement)) ||
            !is_whole(placed(pair, axis))) {
          continue;
        }
        found.emplace(axis, concat("its ", kind_name(kind), " is ",
                                   partial != nullptr
                                       ? concat("a partial ", reduction_name(partial->reduction))
                                       : std::string("cut"),
                                   " over ", axis));
      }
    }
  }
  return found;
}

// Findings that are read again for it, dimension by dimension.
constexpr std::size_t kMostWithRows = 16;

std::string rows_of(const ExplainInput& input, const TensorComparison& result) {
  const bool against_reference = result.outcome == Outcome::kDiverged && !result.exact &&
                                 !result.comparison->replay && result.tokens_left_out == 0 &&
                                 result.comparison->measurement.total.nonfinite_different == 0;
  if (!against_reference) return "";
  try {
    return rows_with_error({&input.reference, result.reference},
                           {&input.candidate, result.candidate});
  } catch (const base::InputError&) {
    return "";  // as with causes
  }
}

StaleFacts stale_facts(const TensorComparison& result) {
  const comparison::ComparedNumbers& comparison = *result.comparison;
  const double norm = measure::reference_norm(comparison.measurement.total);
  const double difference = measure::difference_norm(comparison.measurement.total);
  return {comparison.replay->outside, comparison.replay->unmoved,
          norm > 0 ? difference / norm : difference};
}

std::vector<Cause> causes_of(const ExplainInput& input, const TensorComparison& result,
                             std::map<std::string, std::string> reduced_over) {
  if (!result.comparison || result.exact) return {};
  // The others hold a tensor against the reference, which did not judge this one.
  if (result.comparison->replay) return find_stale(stale_facts(result));
  Case the_case;
  the_case.backend = &input.backend;
  the_case.reference = {&input.reference, result.reference};
  the_case.candidate = {&input.candidate, result.candidate};
  the_case.measurement = &result.comparison->measurement;
  the_case.tolerance = result.comparison->tolerance;
  if (result.comparison->noise) the_case.noise_norm = result.comparison->noise->norm();
  if (const auto& coherence = result.comparison->coherence; !coherence.empty()) {
    the_case.coherence = coherence.front();
  }
  the_case.reduced_over = std::move(reduced_over);
  try {
    return find_causes(the_case);
  } catch (const base::InputError&) {
    return {};  // the tensor was readable a moment ago; without a cause the finding still stands
  }
}

}  // namespace

std::vector<comparison::Finding> explain_findings(const ExplainInput& input,
                                                  const Frontier& frontier) {
  const ModuleGraph graph(input.modules);
  const auto sorted = [](std::vector<std::size_t> nodes) {
    std::sort(nodes.begin(), nodes.end());
    return nodes;
  };

  std::vector<comparison::Finding> findings;
  for (const Finding& found : frontier.findings) {
    const TensorComparison& result = input.results[found.first];
    comparison::Finding finding;
    finding.result = found.first;
    finding.members = sorted(found.members);
    finding.one_sided_group = found.one_sided_group;
    if (const trace::Module* module = module_of(graph, result.key)) {
      finding.class_name = module->class_name;
      finding.called_at = module->called_at;
    }
    finding.depends_on = sorted(input.flow.depends_on[found.first]);
    finding.downstream = found.downstream;
    finding.before = describe_before(finding.depends_on, result, input.results);
    if (result.comparison) {
      finding.ranks = ranks_with_error(result);
      finding.where = describe_where({&input.candidate, result.candidate}, result);
      if (findings.size() < kMostWithRows) {
        const std::string rows = rows_of(input, result);
        if (!rows.empty()) finding.where += concat("; ", rows);
      }
      finding.values = describe_values({&input.reference, result.reference},
                                       {&input.candidate, result.candidate}, result);
      finding.parts = describe_slices(result.comparison->slices, result.shape);
      finding.merged = describe_view(input.candidate, *result.candidate);
      finding.causes =
          causes_of(input, result,
                    axes_reduced_over(input.flow.depends_on[found.first], result, input.results));
    } else if (result.outcome == Outcome::kIncomparable) {
      finding.merged =
          describe_shapes(input.reference, *result.reference, input.candidate, *result.candidate);
    }
    findings.push_back(std::move(finding));
  }
  return findings;
}

}  // namespace ttrace::localize
