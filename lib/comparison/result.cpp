#include "comparison/result.h"

#include <algorithm>
#include <vector>

#include "base/text.h"

namespace ttrace::comparison {

std::string_view verdict_name(Verdict verdict) {
  switch (verdict) {
    case Verdict::kMatch:
      return "match";
    case Verdict::kDiverged:
      return "diverged";
    case Verdict::kInconclusive:
      return "inconclusive";
  }
  return "";
}

void set_execution(const measure::ExecutionContext& execution, Environment& environment) {
  environment.backend = execution.backend->name();
  environment.instruction_set = execution.backend->instruction_set();
  environment.remarks = execution.backend->remarks();
  environment.threads = execution.thread_count();
}

std::string execution_text(const Environment& environment) {
  const std::string remarks =
      environment.remarks.empty() ? "" : base::concat(" (", environment.remarks, ")");
  return base::concat(environment.backend, " ", environment.instruction_set, ", ",
                      base::plural(environment.threads, "thread"), remarks);
}

int exit_code(Verdict verdict) {
  switch (verdict) {
    case Verdict::kMatch:
      return 0;
    case Verdict::kDiverged:
      return 1;
    case Verdict::kInconclusive:
      return 3;
  }
  return 3;
}

namespace {

using base::concat;
using judge::Outcome;

void inconclusive(std::string why, CompareReport& out) {
  out.verdict = Verdict::kInconclusive;
  out.why = std::move(why);
}

// The elements that the answer "match" is based on.
std::uint64_t elements_matched(const CompareReport& out) {
  std::uint64_t elements = 0;
  for (const TensorComparison& result : out.results) {
    if (result.outcome != Outcome::kMatch || !result.comparison) continue;
    elements += result.comparison->measurement.total.elements;
  }
  return elements;
}

std::string nothing_in_common(const CompareReport& out) {
  std::string text =
      concat("nothing was compared: the traces have no tensor in common (",
             base::plural(out.counts.at(Outcome::kMissing), "tensor"), " only in the reference, ",
             out.counts.at(Outcome::kExtra), " only in the candidate)");
  std::vector<std::string> candidates;
  const TensorComparison* missing = nullptr;
  for (const TensorComparison& result : out.results) {
    if (result.outcome == Outcome::kExtra) candidates.push_back(to_string(result.key));
    if (result.outcome == Outcome::kMissing && missing == nullptr) missing = &result;
  }
  if (missing != nullptr && !candidates.empty()) {
    const auto nearest = base::nearest_names(to_string(missing->key), candidates, 1);
    if (!nearest.empty()) {
      text +=
          concat("; the reference has ", to_string(missing->key), ", the candidate ", nearest[0]);
    }
  }
  return text;
}

std::string describe_interruption(const CompareReport& out) {
  std::string text = concat("interrupted after ", out.interrupted->measured, " of ",
                            base::plural(out.interrupted->of, "tensor"));
  if (out.findings.empty()) return text;
  return concat(text, "; so far ", to_string(out.results[out.findings.front().result].key), " is ",
                outcome_name(out.results[out.findings.front().result].outcome));
}

// Whether it was compared without an answer. Updates that cannot be replayed are common, and so are
// the parameters that they leave to the next step; these do not count.
bool is_unanswered(const TensorComparison& result) {
  const trace::Kind kind = result.key.kind;
  return result.outcome == Outcome::kNotJudged && kind != trace::Kind::kParamAfterStep &&
         kind != trace::Kind::kParam && kind != trace::Kind::kOptimizerState;
}

// Whether a tensor that takes part was not judged.
bool is_unchecked(const TensorComparison& result) {
  return result.outcome == Outcome::kBelowNoiseFloor || result.outcome == Outcome::kNotJudged ||
         result.incomplete;
}

std::string describe_unchecked(const TensorComparison& result) {
  return concat(base::printable(to_string(result.key)), " was not checked (", result.reason, ")");
}

// Returns why the loss, a gradient norm or many main gradients were not checked, or empty.
std::string essentials_unchecked(const CompareReport& out) {
  std::uint64_t gradients = 0;
  std::uint64_t unchecked_gradients = 0;
  const TensorComparison* left_out = nullptr;
  for (const TensorComparison& result : out.results) {
    const trace::Kind kind = result.key.kind;
    if (kind == trace::Kind::kMainGrad) {
      gradients += is_unchecked(result) || result.outcome == Outcome::kMatch ? 1 : 0;
      unchecked_gradients += is_unchecked(result) ? 1 : 0;
      if (result.incomplete && left_out == nullptr) left_out = &result;
    } else if (kind == trace::Kind::kLoss || kind == trace::Kind::kGradNorm) {
      if (is_unchecked(result)) return describe_unchecked(result);
    }
  }
  if (unchecked_gradients == 0 || 10 * unchecked_gradients < gradients) return "";
  if (left_out != nullptr) {
    return concat(unchecked_gradients, " of ", base::plural(gradients, "main gradient"),
                  " were not checked: ", base::printable(left_out->reason));
  }
  return concat(
      unchecked_gradients, " of ", base::plural(gradients, "main gradient"),
      " were not checked: their tolerances are as wide as they are themselves, or nothing "
      "tells them");
}

// Returns which essential tensors of the reference the candidate was told not to record, or empty.
// What a person selects at the command is that person's decision; what a recording lacks is not.
std::string essentials_not_recorded(const CompareReport& out) {
  using trace::Kind;
  std::map<Kind, std::uint64_t> lacking;
  for (const TensorComparison& result : out.results) {
    if (result.outcome != Outcome::kNotRecorded || result.incomplete) continue;
    if (result.lacking != TraceSide::kCandidate) continue;
    ++lacking[result.key.kind];
  }
  std::string text;
  for (const auto& [kind, noun] : {std::pair(Kind::kLoss, "loss"),
                                   {Kind::kGradNorm, "gradient norm"},
                                   {Kind::kMainGrad, "main gradient"}}) {
    const auto found = lacking.find(kind);
    if (found == lacking.end()) continue;
    text += concat(text.empty() ? "" : ", ", base::plural(found->second, noun));
  }
  if (text.empty()) return "";
  return concat("the candidate was told not to record ", text,
                " of the reference; record them too, or select what to compare with --kind or "
                "--only");
}

// Returns which essential tensors --common left out, or empty: without them a match means nothing.
std::string essentials_left_out(const CompareReport& out) {
  using trace::Kind;
  std::uint64_t others = 0;
  const TensorComparison* first = nullptr;
  for (const TensorComparison& result : out.results) {
    const Kind kind = result.key.kind;
    if (result.skipped != SkippedFor::kCommon) continue;
    if (kind != Kind::kParam && kind != Kind::kLoss && kind != Kind::kMainGrad) continue;
    others += first == nullptr ? 0 : 1;
    if (first == nullptr) first = &result;
  }
  if (first == nullptr) return "";
  std::string text = base::printable(to_string(first->key));
  if (others > 0) text += concat(" and ", others, " more parameters, losses or main gradients");
  return concat(text, others > 0 ? " are" : " is", " left out, because one side alone has ",
                others > 0 ? "them" : "it");
}

std::string describe_lost_ranks(const RunState& state, const CompareReport& out) {
  const bool candidates = state.lost_candidate_ranks > 0;
  return concat(candidates ? state.lost_candidate_ranks : state.lost_reference_ranks, " of ",
                candidates ? out.candidate.ranks : out.reference.ranks, " ranks of the ",
                candidates ? "candidate" : "reference", " could not be read, so ",
                out.counts.at(Outcome::kUnreadable), " of ", out.results.size(),
                " tensors were not checked");
}

}  // namespace

void decide(const RunState& state, CompareReport& out) {
  const auto count = [&out](Outcome outcome) { return out.counts.at(outcome); };
  const std::uint64_t total = out.results.size();
  const std::uint64_t in_common = total - count(Outcome::kMissing) - count(Outcome::kExtra);
  if (out.interrupted) return inconclusive(describe_interruption(out), out);
  if (total == 0) return inconclusive("nothing was compared: both traces are empty", out);
  const bool bad = std::any_of(out.results.begin(), out.results.end(),
                               [](const auto& result) { return judge::is_bad(result.outcome); });
  const std::size_t lost = state.lost_reference_ranks + state.lost_candidate_ranks;
  if (in_common == 0) {
    return inconclusive(lost > 0 ? concat("nothing was compared: ", describe_lost_ranks(state, out))
                                 : nothing_in_common(out),
                        out);
  }
  if (bad || !out.settings.empty()) {
    out.verdict = Verdict::kDiverged;
    return;
  }
  if (lost > 0) {
    return inconclusive(concat("nothing diverged, but ", describe_lost_ranks(state, out)), out);
  }
  if (count(Outcome::kUnreadable) > 0) {
    return inconclusive(concat("nothing diverged, but ", count(Outcome::kUnreadable), " of ", total,
                               " tensors could not be read"),
                        out);
  }
  const auto unanswered = std::find_if(out.results.begin(), out.results.end(), is_unanswered);
  if (unanswered != out.results.end()) {
    return inconclusive(concat("nothing diverged, but ", describe_unchecked(*unanswered)), out);
  }
  if (count(Outcome::kAfterRoutingFlip) > 0) {
    return inconclusive(
        concat("nothing diverged, but ", count(Outcome::kAfterRoutingFlip), " of ", total,
               " tensors could not be judged: they follow tokens that were routed to other experts "
               "near a tie, which is no bug by itself; traces in higher precision flip fewer"),
        out);
  }
  if (count(Outcome::kMatch) == 0) {
    return inconclusive(concat("nothing was really checked: ", count(Outcome::kBelowNoiseFloor),
                               " of ", total, " tensors are below the noise floor, ",
                               count(Outcome::kSkippedByRule), " were skipped"),
                        out);
  }
  if (elements_matched(out) == 0) {
    return inconclusive("nothing was compared: the tensors that match have no elements", out);
  }
  if (const std::string why = essentials_not_recorded(out); !why.empty()) {
    return inconclusive(concat("nothing diverged, but ", why), out);
  }
  if (const std::string why = essentials_left_out(out); !why.empty()) {
    return inconclusive(concat("nothing diverged, but ", why), out);
  }
  if (const std::string why = essentials_unchecked(out); !why.empty()) {
    return inconclusive(concat("nothing diverged, but ", why), out);
  }
  if (!state.unrecorded_main_gradients.empty()) {
    return inconclusive(concat("nothing diverged, but ", state.unrecorded_main_gradients), out);
  }
  if (state.same_run) {
    return inconclusive(
        "the reference and the candidate are the same run, so nothing was checked; give a run of "
        "the job in the place of one of them",
        out);
  }
  out.verdict = Verdict::kMatch;
}

}  // namespace ttrace::comparison
