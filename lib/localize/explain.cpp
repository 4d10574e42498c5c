#include "localize/explain.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "base/display_limits.h"
#include "base/error.h"
#include "base/text.h"
#include "localize/causes/cause.h"
#include "localize/dataflow_index.h"
#include "localize/describe_difference.h"
#include "localize/describe_layout.h"
#include "localize/phase.h"

namespace ttrace::localize {
namespace {

using answer::RejectedCause;
using base::concat;
using comparison::TensorComparison;
using judge::Outcome;

// The module whose code produced the tensor.
const trace::Module* recorded_module_of(const ModuleGraph& graph, const trace::TensorKey& key) {
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
  // Tensors that did not match come first, then near ones, and last the model's own inputs, on
  // which
  // everything depends.
  const auto room = [&results](std::size_t i) {
    const bool far = phase_of(results[i].key) == Phase::kInput;
    return results[i].outcome != Outcome::kMatch ? 0 : far ? 2 : 1;
  };
  std::stable_sort(named.begin(), named.end(),
                   [&room](std::size_t a, std::size_t b) { return room(a) < room(b); });
  // Micro-batches have the same description, and are counted.
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
  for (std::size_t i = 0; i < said.size() && i < base::kShown.names; ++i) {
    text += concat(text.empty() ? "" : "; ", said[i].first);
    if (said[i].second > 1) text += concat(" (", said[i].second, " of them)");
    more -= said[i].second;
  }
  return more > 0 ? concat(text, "; and ", more, " more") : text;
}

// The most findings whose tensors rows_of() reads again.
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

// The most findings whose causes are searched for in other tensors, too.
constexpr std::size_t kMostRelated = 256;
// The most elements, of all findings together, that are read again to find causes.
constexpr std::uint64_t kMostElementsRead = std::uint64_t{1} << 30;

struct Surroundings {
  const Related* related = nullptr;  // null: only the tensor itself is looked at
  std::map<std::string, std::string> reduced_over;
  bool spreads = true;
  bool may_read = true;
};

std::vector<Cause> causes_of(const ExplainInput& input, const TensorComparison& result,
                             Surroundings around, std::vector<RejectedCause>& rejected) {
  const measure::TensorRef reference{&input.reference, result.reference};
  const measure::TensorRef candidate{&input.candidate, result.candidate};
  try {
    if (result.outcome == Outcome::kIncomparable) {
      return find_layout_for_shape(input.backend, reference, candidate);
    }
    if (!result.comparison) return {};
    Case the_case;
    the_case.backend = &input.backend;
    the_case.reference = reference;
    the_case.candidate = candidate;
    the_case.measurement = &result.comparison->measurement;
    the_case.tolerance = result.comparison->tolerance;
    if (result.comparison->noise) the_case.noise_norm = result.comparison->noise->norm();
    if (const auto& coherence = result.comparison->coherence; !coherence->empty()) {
      the_case.coherence = coherence->front();
    }
    the_case.reduced_over = std::move(around.reduced_over);
    the_case.exact = result.exact;
    the_case.conflict = result.outcome == Outcome::kReplicaConflict;
    the_case.spreads = around.spreads;
    the_case.may_read = around.may_read;
    the_case.related = around.related;
    the_case.result = &result;
    the_case.rejected = &rejected;
    return result.comparison->replay ? find_causes_of_replay(the_case, stale_facts(result))
                                     : find_causes(the_case);
  } catch (const base::InputError&) {
    return {};  // readable a moment ago; the finding stands without a cause
  }
}

}  // namespace

std::vector<comparison::ComparedFinding> explain_findings(const ExplainInput& input,
                                                          const Frontier& frontier) {
  const ModuleGraph graph(input.modules);
  std::vector<comparison::ComparedFinding> findings = frontier.findings;
  std::optional<Related> related;
  if (!findings.empty()) related.emplace(input.results, input.reference, input.candidate);
  std::uint64_t elements_read = 0;
  for (std::size_t f = 0; f < findings.size(); ++f) {
    comparison::ComparedFinding& finding = findings[f];
    const TensorComparison& result = input.results[finding.result];
    std::sort(finding.members.begin(), finding.members.end());
    finding.depends_on = input.flow.depends_on[finding.result];
    std::sort(finding.depends_on.begin(), finding.depends_on.end());
    if (const trace::Module* module = recorded_module_of(graph, result.key)) {
      finding.class_name = module->class_name;
      finding.called_at = module->called_at;
    }
    finding.before = describe_before(finding.depends_on, result, input.results);
    if (result.outcome == Outcome::kIncomparable) {
      finding.merged =
          describe_shapes(input.reference, *result.reference, input.candidate, *result.candidate);
    }
    if (result.outcome == Outcome::kMissing) {
      finding.causes = find_missing_layer(finding.one_sided_group, input.candidate);
    } else {
      Surroundings around;
      around.related = f < kMostRelated ? &*related : nullptr;
      around.reduced_over = axes_reduced_over(finding.depends_on, result, input.results);
      around.spreads = !finding.downstream.empty();
      around.may_read = elements_read < kMostElementsRead;
      finding.causes = causes_of(input, result, std::move(around), finding.rejected);
      elements_read += tensor::element_count(result.shape).value_or(kMostElementsRead);
    }
    if (!result.comparison) continue;
    const measure::TensorRef reference{&input.reference, result.reference};
    const measure::TensorRef candidate{&input.candidate, result.candidate};
    finding.ranks = ranks_with_error(result);
    finding.where = describe_where(candidate, result);
    if (f < kMostWithRows) {
      const std::string rows = rows_of(input, result);
      if (!rows.empty()) finding.where += concat("; ", rows);
    }
    finding.values = describe_values(reference, candidate, result);
    finding.parts = describe_slices(result.comparison->slices, result.shape);
    finding.merged = describe_view(input.candidate, *result.candidate);
  }
  return findings;
}

}  // namespace ttrace::localize
