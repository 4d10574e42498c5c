#include "localize/explain.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "base/display_limits.h"
#include "base/error.h"
#include "base/message.h"
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
using base::render;
using comparison::TensorComparison;
using judge::Outcome;

// The module whose code produced the tensor.
const trace::Module* recorded_module_of(const ModuleGraph& graph, const trace::TensorKey& key) {
  if (const auto& users = graph.users(key.name); !users.empty()) return users.front();
  return graph.find(trace::module_of_value(key.name));
}

base::Message describe_dependency(const TensorComparison& dependency,
                                  const TensorComparison& finding) {
  const bool same_name = dependency.key.name == finding.key.name;
  const bool is_param = finding.key.kind == trace::Kind::kMainGrad ||
                        finding.key.kind == trace::Kind::kParamAfterStep ||
                        finding.key.kind == trace::Kind::kParamGrad;
  std::vector<std::pair<std::string_view, base::Message::Value>> values{
      {"kind", std::string(kind_name(dependency.key.kind))},
      {"whose", !same_name ? dependency.key.name
                : is_param ? render({"the same parameter", {}})
                           : render({"the same module", {}})}};
  switch (dependency.outcome) {
    case Outcome::kMatch:
      return {"{kind} of {whose} matches", std::move(values)};
    case Outcome::kBelowNoiseFloor:
      return {"{kind} of {whose} is below the noise floor", std::move(values)};
    case Outcome::kSkippedByRule:
      return {"{kind} of {whose} was skipped", std::move(values)};
    case Outcome::kRoutingFlip:
      return {"{kind} of {whose} differs near ties alone", std::move(values)};
    case Outcome::kAfterRoutingFlip:
    case Outcome::kNotJudged:
      return {"{kind} of {whose} was not judged", std::move(values)};
    case Outcome::kNotRecorded:
      return {"{kind} of {whose} was not recorded", std::move(values)};
    default:
      values.emplace_back("outcome", std::string(outcome_name(dependency.outcome)));
      return {"{kind} of {whose} is {outcome}", std::move(values)};
  }
}

std::string describe_before(const std::vector<std::size_t>& depends_on,
                            const TensorComparison& finding,
                            const std::vector<TensorComparison>& results) {
  if (depends_on.empty()) return render({"nothing that was recorded comes before it", {}});
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
  std::vector<std::pair<std::string, std::uint64_t>> said;
  for (const std::size_t i : named) {
    std::string words = render(describe_dependency(results[i], finding));
    if (const layout::ViewPtr& view = results[i].candidate; view != nullptr) {
      for (const auto& [axis, placement] : layout::stored_in(*view).front()->placements) {
        if (!std::holds_alternative<trace::Partial>(placement)) continue;
        words = render({"{tensor} as a {placement} over {axis}",
                        {{"tensor", words}, {"placement", to_string(placement)}, {"axis", axis}}});
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
  std::uint64_t more = named.size();
  for (std::size_t i = 0; i < said.size() && i < base::kShown.names; ++i) {
    const auto& [words, times] = said[i];
    if (!text.empty()) text += "; ";
    text += times > 1
                ? render({"{tensor} ({times} of them)", {{"tensor", words}, {"times", times}}})
                : words;
    more -= times;
  }
  return more > 0 ? render({"{tensors}; and {more} more", {{"tensors", text}, {"more", more}}})
                  : text;
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
          norm > 0 ? difference / norm : difference, comparison.replay->of == comparison::kOfMaster,
          result.key.kind == trace::Kind::kParamAfterStep};
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
    if (result.stored_before && the_case.tolerance.rule == judge::Rule::kExact) {
      // A cause is right where it leaves what storing its result rounds.
      the_case.tolerance.floor_norm = the_case.tolerance.epsilon *
                                      measure::reference_norm(result.comparison->measurement.total);
    }
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
