#include "engine/initial_results.h"

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
};

void tell_absence(const Absence& absence, const std::string& note, Result& result) {
  if (trace::was_asked_for(absence.lacking.manifest(), result.key) == false) {
    result.outcome = Outcome::kNotRecorded;
    result.reason = concat(absence.lacking.path(), " was told to leave it out");
  } else if (!absence.lost.empty()) {
    result.outcome = Outcome::kUnreadable;
    result.reason = concat(absence.lacking.path(), ": ", absence.lost, ", which may have held it");
  } else {
    result.outcome = absence.outcome;
    result.reason = concat("in the ", absence.present_in, " only", note.empty() ? "" : "; ", note);
  }
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
  const std::string skipped =
      input.selection.selects(pair.key) ? skip_reason(input, pair.key) : "not selected";
  if (!skipped.empty()) {
    result.outcome = Outcome::kSkippedByRule;
    result.reason = skipped;
  } else if (pair.candidate == nullptr) {
    tell_absence({input.candidate, "reference", input.lost_in_candidate, Outcome::kMissing},
                 pair.note, result);
  } else if (pair.reference == nullptr) {
    tell_absence({input.reference, "candidate", input.lost_in_reference, Outcome::kExtra},
                 pair.note, result);
  } else {
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
