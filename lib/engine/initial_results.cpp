#include "engine/initial_results.h"

#include <algorithm>

#include "base/concat.h"
#include "trace/recorded.h"

namespace ttrace::engine {
namespace {

using base::concat;
using report::Result;
using verdict::Outcome;

// Why a rule leaves the tensor unjudged, or nothing.
std::string skip_reason(const InitialResultsInput& input, const trace::TensorKey& key) {
  const auto number = tolerance::rule_for(input.rules, key);
  if (!number || !tolerance::skips(input.rules[*number], input.today)) return "";
  const tolerance::PolicyRule& rule = input.rules[*number];
  return concat("policy:", *number, ": ", rule.skip,
                rule.until.empty() ? "" : concat(" (until ", rule.until, ")"));
}

struct Absence {
  const trace::Source& lacking;  // the trace that has no such tensor
  const char* present_in;
  const std::string& lost;
  Outcome outcome;
  bool common;
};

bool has_step(const trace::Manifest& manifest, std::uint64_t step) {
  const auto& recorded = manifest.run.recorded;
  return !recorded ||
         std::find(recorded->steps.begin(), recorded->steps.end(), step) != recorded->steps.end();
}

void tell_absence(const Absence& absence, const std::string& note, Result& result) {
  const trace::Manifest& lacking = absence.lacking.manifest();
  // A step that ranks did not get to is lost, whatever they were told.
  const bool may_be_lost = !absence.lost.empty() && !has_step(lacking, result.key.step);
  if (trace::was_asked_for(lacking, result.key) == false && !may_be_lost) {
    result.outcome = Outcome::kNotRecorded;
    result.reason = concat(absence.lacking.path(), " was told to leave it out");
  } else if (!absence.lost.empty()) {
    result.outcome = Outcome::kUnreadable;
    result.reason = concat(absence.lacking.path(), ": ", absence.lost, ", which may have held it");
  } else if (absence.common) {
    result.outcome = Outcome::kSkippedByRule;
    result.left_out = true;
    result.reason = concat("in the ", absence.present_in, " only, and left out by --common");
  } else {
    result.outcome = absence.outcome;
    result.reason = concat("in the ", absence.present_in, " only", note.empty() ? "" : "; ", note);
  }
}

// Why not all ranks of a side that hold the tensor have recorded it, or empty.
std::string absence_words(const Absences& absences, const layout::ViewPtr& view) {
  if (absences.empty()) return "";
  for (const trace::TensorEntry* entry : layout::stored_in(*view)) {
    const auto found = absences.find(entry->key);
    if (found != absences.end()) return found->second;
  }
  return "";
}

// Whether a part is missing on either side.
bool tell_missing_part(const InitialResultsInput& input, const Pair& pair, Result& result) {
  std::string words = absence_words(input.absent_in_candidate, pair.candidate);
  const bool of_candidate = !words.empty();
  if (!of_candidate) words = absence_words(input.absent_in_reference, pair.reference);
  if (words.empty()) return false;
  result.outcome = Outcome::kMissing;
  result.note = of_candidate ? words : concat("in the reference, ", words);
  result.reason = concat((of_candidate ? input.candidate : input.reference).path(), ": ", words);
  return true;
}

Result initial_result(const InitialResultsInput& input, const Pair& pair) {
  Result result;
  result.key = pair.key;
  const layout::View& view = pair.reference != nullptr ? *pair.reference : *pair.candidate;
  result.shape = view.shape;
  result.dtype = view.dtype;
  if (pair.candidate != nullptr && pair.candidate->dtype != view.dtype) {
    result.candidate_dtype = pair.candidate->dtype;
  }
  result.note = pair.note;
  std::string skipped = pair.dropped;
  if (skipped.empty()) {
    skipped = input.selection.selects(pair.key) ? skip_reason(input, pair.key) : "not selected";
  }
  if (!skipped.empty()) {
    result.outcome = Outcome::kSkippedByRule;
    result.reason = skipped;
  } else if (pair.candidate == nullptr) {
    tell_absence({input.candidate, "reference", input.lost_in_candidate, Outcome::kMissing,
                  input.common && !pair.has_parts},
                 pair.note, result);
  } else if (pair.reference == nullptr) {
    tell_absence({input.reference, "candidate", input.lost_in_reference, Outcome::kExtra,
                  input.common && !pair.has_parts},
                 pair.note, result);
  } else if (!tell_missing_part(input, pair, result)) {
    result.exact =
        !tensor::is_floating(pair.reference->dtype) && !tensor::is_floating(pair.candidate->dtype);
    result.reason = incomparable_reason(pair);
    if (!result.reason.empty()) {
      result.outcome = Outcome::kIncomparable;
    } else if (std::string apart = microbatches_apart(pair); !apart.empty()) {
      result.outcome = Outcome::kNotJudged;
      result.reason = std::move(apart);
    }
  }
  return result;
}

}  // namespace

std::vector<Result> initial_results(const InitialResultsInput& input,
                                    const std::vector<Pair>& pairs) {
  std::vector<Result> results;
  results.reserve(pairs.size());
  for (const Pair& pair : pairs) results.push_back(initial_result(input, pair));
  return results;
}

}  // namespace ttrace::engine
