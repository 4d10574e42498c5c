#include "comparison/selection.h"

#include <algorithm>

#include "base/error.h"
#include "base/message.h"
#include "base/text.h"
#include "layout/map_apply.h"
#include "trace/manifest.h"

namespace ttrace::comparison {
namespace {

using base::concat;
using base::render;
using judge::Outcome;

const layout::DroppedBy* rule_of(const DroppedKeys& dropped, const layout::ViewPtr& view) {
  if (view == nullptr) return nullptr;
  const auto found = dropped.find(view->key);
  return found == dropped.end() ? nullptr : &found->second;
}

// Counts the tensors that one rule drops.
struct RuleTally {
  DroppedTensors tensors;
  std::uint64_t in_both = 0;
};

}  // namespace

void mark_dropped(const DroppedKeys& of_reference, const DroppedKeys& of_candidate,
                  std::vector<Pair>& pairs, CompareReport& out) {
  if (of_reference.empty() && of_candidate.empty()) return;
  std::map<std::pair<bool, std::size_t>, RuleTally> rules;  // the reference's first
  const auto add = [&](bool candidates, const layout::DroppedBy* rule, Pair& pair) {
    if (rule == nullptr) return;
    pair.dropped = concat("map:", rule->pointer, ": ", rule->reason);
    RuleTally& tally = rules[{candidates, rule->rule}];
    tally.tensors.rule = rule->pointer;
    tally.tensors.reason = rule->reason;
    ++tally.tensors.tensors;
    if (pair.reference != nullptr && pair.candidate != nullptr) ++tally.in_both;
  };
  for (Pair& pair : pairs) {
    add(false, rule_of(of_reference, pair.reference), pair);
    add(true, rule_of(of_candidate, pair.candidate), pair);
  }
  for (const auto& [rule, tally] : rules) {
    out.dropped.push_back(tally.tensors);
    if (tally.in_both == 0) continue;
    out.warnings.push_back(render(
        {"{file}: {rule} drops {count:tensor} that both traces have, and that are not compared now",
         {{"file", out.map_rules}, {"rule", tally.tensors.rule}, {"count", tally.in_both}}}));
  }
}

std::vector<std::string> rule_warnings(const judge::Policy& rules, const std::string& file,
                                       const std::vector<Pair>& pairs, const std::string& today) {
  std::vector<std::size_t> used(rules.size(), 0);
  for (const Pair& pair : pairs) {
    if (const auto number = judge::rule_for(rules, pair.key)) ++used[*number];
  }
  std::vector<std::string> warnings;
  for (std::size_t i = 0; i < rules.size(); ++i) {
    const std::string rule = concat(file, ": /rules/", i, " (", rules[i].names.front(), ")");
    if (used[i] == 0) {
      warnings.push_back(render({"{rule} is the first match of no tensor", {{"rule", rule}}}));
    } else if (!rules[i].skip.empty() && !judge::skips(rules[i], today)) {
      warnings.push_back(render(
          {"{rule} ended on {day}, so {count:tensor} are judged again; renew it or take it out",
           {{"rule", rule}, {"day", rules[i].until}, {"count", used[i]}}}));
    }
  }
  return warnings;
}

LeftOut left_out_of(const std::vector<TensorComparison>& results) {
  LeftOut left_out;
  for (const TensorComparison& result : results) {
    if (result.skipped != SkippedFor::kCommon) continue;
    ++(result.candidate == nullptr ? left_out.of_reference : left_out.of_candidate);
  }
  return left_out;
}

namespace {

// Returns why a rule of the policy leaves the tensor unjudged, or empty.
std::string skip_reason(const InitialResultsInput& input, const trace::TensorKey& key) {
  const auto number = judge::rule_for(input.rules, key);
  if (!number || !judge::skips(input.rules[*number], input.today)) return "";
  const judge::PolicyRule& rule = input.rules[*number];
  return concat("policy:", *number, ": ", rule.skip,
                rule.until.empty() ? "" : concat(" (until ", rule.until, ")"));
}

// The tensors that one trace lacks, with the reasons that many of them have in common: a trace may
// lack a hundred thousand.
struct Absence {
  Absence(const trace::Source& trace, TraceSide which, const std::string& lost_ranks)
      : lacking(trace),
        side(which),
        lost(lost_ranks),
        told(render({"{run} was told to leave it out", {{"run", trace.path()}}})),
        may_be_lost(render({"{run}: {lost}, which may have held it",
                            {{"run", trace.path()}, {"lost", lost_ranks}}})),
        left_out(
            render({"in the {side} only, and left out by --common", {{"side", present_in()}}})),
        alone(render({"in the {side} only", {{"side", present_in()}}})) {}

  const char* present_in() const {
    return side == TraceSide::kCandidate ? "reference" : "candidate";
  }
  Outcome outcome() const {
    return side == TraceSide::kCandidate ? Outcome::kMissing : Outcome::kExtra;
  }

  const trace::Source& lacking;
  TraceSide side;  // of `lacking`
  const std::string& lost;
  std::string told;
  std::string may_be_lost;
  std::string left_out;
  std::string alone;
};

bool has_step(const trace::Manifest& manifest, std::uint64_t step) {
  const auto& recorded = manifest.run.recorded;
  return !recorded ||
         std::find(recorded->steps.begin(), recorded->steps.end(), step) != recorded->steps.end();
}

void mark_incomplete(const trace::Source& lacking, TraceSide side, const trace::Incomplete& known,
                     TensorComparison& result) {
  result.outcome = Outcome::kNotRecorded;
  result.lacking = side;
  result.incomplete = true;
  result.reason =
      render({"{run} left it out: {why}", {{"run", lacking.path()}, {"why", known.reason}}});
}

// Whether `key` is the factor that a script multiplies a loss by, and the run of `lacking` recorded
// that loss without a factor. That is normal: its script may record a loss that is detached, or
// after its backward, or compute a mean where the other script divides a sum.
bool is_factor_of_recorded_loss(const trace::TensorKey& key, const trace::Manifest& lacking) {
  if (!trace::is_factor_of_loss(key) && !trace::is_inner_factor_of_loss(key)) return false;
  return std::any_of(lacking.tensors.begin(), lacking.tensors.end(),
                     [&](const trace::TensorEntry& entry) {
                       return entry.key.kind == trace::Kind::kLoss && entry.key.step == key.step &&
                              entry.key.microbatch == key.microbatch;
                     });
}

void mark_absence(const Absence& absence, bool common, TensorComparison& result) {
  const trace::Manifest& lacking = absence.lacking.manifest();
  // A step that ranks did not reach is lost, whatever they were asked to record.
  const bool may_be_lost = !absence.lost.empty() && !has_step(lacking, result.key.step);
  if (const auto* known = trace::incomplete_of(lacking, result.key)) {
    mark_incomplete(absence.lacking, absence.side, *known, result);
  } else if (trace::was_asked_for(lacking, result.key) == false && !may_be_lost) {
    result.outcome = Outcome::kNotRecorded;
    result.lacking = absence.side;
    result.reason = absence.told;
  } else if (!absence.lost.empty()) {
    result.outcome = Outcome::kUnreadable;
    result.reason = absence.may_be_lost;
  } else if (is_factor_of_recorded_loss(result.key, lacking)) {
    result.outcome = Outcome::kNotRecorded;
    result.lacking = absence.side;
    result.reason =
        render({"{run} recorded the loss without {what}",
                {{"run", absence.lacking.path()},
                 {"what", trace::is_factor_of_loss(result.key) ? "its gradient" : "a factor"}}});
  } else if (common) {
    result.outcome = Outcome::kSkippedByRule;
    result.skipped = SkippedFor::kCommon;
    result.reason = absence.left_out;
  } else {
    result.outcome = absence.outcome();
    result.reason = result.note->empty()
                        ? absence.alone
                        : render({"in the {side} only; {note}",
                                  {{"side", absence.present_in()}, {"note", *result.note}}});
  }
}

// Returns why not all ranks of a side that hold the tensor have recorded it, or empty.
std::string describe_absence(const Absences& absences, const layout::ViewPtr& view) {
  if (absences.empty()) return "";
  for (const trace::TensorEntry* entry : layout::stored_in(*view)) {
    const auto found = absences.find(entry->key);
    if (found != absences.end()) return found->second;
  }
  return "";
}

// Marks a record if some ranks lack their share of it; returns whether it did.
bool mark_missing_share(const InitialResultsInput& input, TensorComparison& result) {
  std::string absence = describe_absence(input.absent_in_candidate, result.candidate);
  const bool of_candidate = !absence.empty();
  if (!of_candidate) absence = describe_absence(input.absent_in_reference, result.reference);
  if (absence.empty()) return false;
  const trace::Source& lacking = of_candidate ? input.candidate : input.reference;
  if (const auto* known = trace::incomplete_of(lacking.manifest(), result.key)) {
    mark_incomplete(lacking, of_candidate ? TraceSide::kCandidate : TraceSide::kReference, *known,
                    result);
    return true;
  }
  result.outcome = Outcome::kMissing;
  result.note =
      of_candidate ? absence : render({"in the reference, {absence}", {{"absence", absence}}});
  result.reason = concat(lacking.path(), ": ", absence);
  return true;
}

// Marks a record if a rule or selection of the user leaves it out; returns whether it did.
bool mark_skipped(const InitialResultsInput& input, TensorComparison& result) {
  const auto skip = [&result](SkippedFor why, std::string reason) {
    result.outcome = Outcome::kSkippedByRule;
    result.skipped = why;
    result.reason = std::move(reason);
    return true;
  };
  if (!result.dropped->empty()) return skip(SkippedFor::kMap, *result.dropped);
  if (!input.selection.selects(result.key)) return skip(SkippedFor::kSelection, "not selected");
  std::string rule = skip_reason(input, result.key);
  return !rule.empty() && skip(SkippedFor::kPolicy, std::move(rule));
}

TensorComparison initial_result(const InitialResultsInput& input, const Absence& in_reference,
                                const Absence& in_candidate, Pair pair) {
  TensorComparison result;
  static_cast<Pair&>(result) = std::move(pair);
  const layout::View& view = result.reference != nullptr ? *result.reference : *result.candidate;
  result.shape = view.shape;
  result.dtype = view.dtype;
  if (result.candidate != nullptr && result.candidate->dtype != view.dtype) {
    result.candidate_dtype = result.candidate->dtype;
  }
  const bool left_out = input.common && !result.has_parts;
  if (mark_skipped(input, result)) return result;
  if (result.candidate == nullptr) {
    mark_absence(in_candidate, left_out, result);
  } else if (result.reference == nullptr) {
    mark_absence(in_reference, left_out, result);
  } else if (!mark_missing_share(input, result)) {
    result.exact = !tensor::is_floating(result.reference->dtype) &&
                   !tensor::is_floating(result.candidate->dtype);
    result.reason = incomparable_reason(result);
    if (!result.reason.empty()) {
      result.outcome = Outcome::kIncomparable;
    } else if (std::string apart = microbatches_apart(result); !apart.empty()) {
      result.outcome = Outcome::kNotJudged;
      result.reason = std::move(apart);
    }
  }
  return result;
}

}  // namespace

std::vector<TensorComparison> initial_results(const InitialResultsInput& input,
                                              std::vector<Pair> pairs) {
  const Absence in_reference(input.reference, TraceSide::kReference, input.lost_in_reference);
  const Absence in_candidate(input.candidate, TraceSide::kCandidate, input.lost_in_candidate);
  std::vector<TensorComparison> results;
  results.reserve(pairs.size());
  for (Pair& pair : pairs) {
    results.push_back(initial_result(input, in_reference, in_candidate, std::move(pair)));
  }
  return results;
}

}  // namespace ttrace::comparison
