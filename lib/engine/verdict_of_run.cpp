#include "engine/verdict_of_run.h"

#include <vector>

#include "base/concat.h"
#include "base/nearest.h"
#include "base/number_text.h"

namespace ttrace::engine {
namespace {

using base::concat;
using report::Verdict;
using verdict::Outcome;

void inconclusive(std::string why, report::CompareReport& out) {
  out.verdict = Verdict::kInconclusive;
  out.why = std::move(why);
}

// What the answer "match" rests on.
std::uint64_t elements_matched(const report::CompareReport& out) {
  std::uint64_t elements = 0;
  for (const report::Result& result : out.results) {
    if (result.outcome != Outcome::kMatch || !result.comparison) continue;
    elements += result.comparison->measurement.total.elements;
  }
  return elements;
}

std::string nothing_in_common(const report::CompareReport& out) {
  std::string text =
      concat("nothing was compared: the traces have no tensor in common (",
             base::plural(out.counts.at(Outcome::kMissing), "tensor"), " only in the reference, ",
             out.counts.at(Outcome::kExtra), " only in the candidate)");
  std::vector<std::string> candidates;
  const report::Result* missing = nullptr;
  for (const report::Result& result : out.results) {
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

std::string interruption_words(const report::CompareReport& out) {
  std::string text = concat("interrupted after ", out.interrupted->measured, " of ",
                            base::plural(out.interrupted->of, "tensor"));
  if (out.findings.empty()) return text;
  return concat(text, "; so far ", to_string(out.results[out.findings.front().result].key), " is ",
                outcome_name(out.results[out.findings.front().result].outcome));
}

}  // namespace

void decide(std::size_t lost_reference_ranks, std::size_t lost_candidate_ranks,
            report::CompareReport& out) {
  const auto count = [&out](Outcome outcome) { return out.counts.at(outcome); };
  const std::uint64_t total = out.results.size();
  const std::uint64_t in_common = total - count(Outcome::kMissing) - count(Outcome::kExtra);
  if (out.interrupted) return inconclusive(interruption_words(out), out);
  if (total == 0) return inconclusive("nothing was compared: both traces are empty", out);
  if (in_common == 0) return inconclusive(nothing_in_common(out), out);
  if (count(Outcome::kDiverged) + count(Outcome::kReplicaConflict) + count(Outcome::kMissing) +
          count(Outcome::kExtra) >
      0) {
    out.verdict = Verdict::kDiverged;
    return;
  }
  const std::size_t lost = lost_reference_ranks + lost_candidate_ranks;
  if (lost > 0) {
    const bool candidates = lost_candidate_ranks > 0;
    return inconclusive(
        concat("nothing diverged, but ", candidates ? lost_candidate_ranks : lost_reference_ranks,
               " of ", candidates ? out.candidate.ranks : out.reference.ranks, " ranks of the ",
               candidates ? "candidate" : "reference", " could not be read, so ",
               count(Outcome::kUnreadable), " of ", total, " tensors were not checked"),
        out);
  }
  const std::uint64_t unchecked = count(Outcome::kUnreadable) + count(Outcome::kIncomparable);
  if (unchecked > 0) {
    return inconclusive(concat("nothing diverged, but ", unchecked, " of ", total,
                               " tensors were not checked: ", count(Outcome::kUnreadable),
                               " unreadable, ", count(Outcome::kIncomparable), " incomparable"),
                        out);
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
  out.verdict = Verdict::kMatch;
}

}  // namespace ttrace::engine
