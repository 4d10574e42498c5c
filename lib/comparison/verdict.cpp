#include "comparison/verdict.h"

#include <algorithm>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/message.h"
#include "base/text.h"
#include "comparison/coverage.h"
#include "comparison/essentials.h"
#include "comparison/random_draws.h"

namespace ttrace::comparison {
namespace {

using base::render;
using judge::Outcome;

// `about`: the clause of the first line that would repeat the reason, or none.
void inconclusive(std::string why, CompareReport& out, std::string_view about = "") {
  out.verdict = answer::Verdict::kInconclusive;
  out.why = std::move(why);
  out.why_is_about = about;
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

// Returns the side that lacks the tensor, or nothing if both have it. It does not matter whether
// the recording left it out or the run does not have it.
std::optional<TraceSide> side_without(const TensorComparison& result) {
  switch (result.outcome) {
    case Outcome::kMissing:
      return TraceSide::kCandidate;
    case Outcome::kExtra:
      return TraceSide::kReference;
    case Outcome::kNotRecorded:
      return result.lacking;
    default:
      return std::nullopt;
  }
}

bool has_any_in_common(const CompareReport& out) {
  return std::any_of(out.results.begin(), out.results.end(),
                     [](const TensorComparison& result) { return !side_without(result); });
}

std::string nothing_in_common(const CompareReport& out) {
  std::vector<std::string> candidates;
  const TensorComparison* missing = nullptr;
  for (const TensorComparison& result : out.results) {
    if (side_without(result) == TraceSide::kReference) {
      candidates.push_back(to_string(result.key));
    } else if (missing == nullptr) {
      missing = &result;
    }
  }
  auto message = base::Message{
      "nothing was compared: the traces have no tensor in common[ ({missing:tensor} only in the "
      "reference, {extra} only in the candidate)][; the reference has {sought}, the candidate "
      "{nearest}]",
      {}};
  // The first line continues with the number of tensors that were not recorded.
  if (out.counts.at(Outcome::kNotRecorded) == out.results.size()) return render(message);
  message.values = {{"missing", out.results.size() - candidates.size()},
                    {"extra", candidates.size()}};
  if (missing != nullptr) {
    const std::string sought = to_string(missing->key);
    const auto nearest = base::nearest_names(sought, candidates, 1);
    message.values.emplace_back("sought", sought);
    if (!nearest.empty()) message.values.emplace_back("nearest", nearest[0]);
  }
  return render(message);
}

std::string describe_interruption(const CompareReport& out) {
  const std::string text = out.interrupted->describe();
  if (out.findings.empty()) return text;
  const TensorComparison& first = out.results[out.findings.front().result];
  return render({"{interruption}; so far {tensor} is {outcome}",
                 {{"interruption", text},
                  {"tensor", to_string(first.key)},
                  {"outcome", std::string(outcome_name(first.outcome))}}});
}

// Whether it was compared without an answer. Two kinds do not count: updates that cannot be
// replayed and the parameters that they leave to the next step, which are common, unless rounding
// hardly explains the update; and random numbers, since all that follows from them is compared.
bool is_unanswered(const TensorComparison& result) {
  const trace::Kind kind = result.key.kind;
  if (result.outcome == Outcome::kNotJudged && result.spread) return true;
  if (is_random_draw(result.key)) return false;
  return result.outcome == Outcome::kNotJudged && kind != trace::Kind::kParamAfterStep &&
         kind != trace::Kind::kParam && kind != trace::Kind::kOptimizerState;
}

std::string describe_lost_ranks(const RunState& state, const CompareReport& out) {
  const bool candidates = state.lost_candidate_ranks > 0;
  return render(
      {"{lost} of {ranks} ranks of the {side} could not be read, so {unreadable} of {all} tensors "
       "were not checked",
       {{"lost", candidates ? state.lost_candidate_ranks : state.lost_reference_ranks},
        {"ranks", candidates ? out.candidate.ranks : out.reference.ranks},
        {"side", candidates ? "candidate" : "reference"},
        {"unreadable", out.counts.at(Outcome::kUnreadable)},
        {"all", out.results.size()}}});
}

// Why a run in which nothing diverged does not match; without a text, it does.
struct Doubt {
  std::string text;
  std::string_view about = "";  // the clause of the first line that would repeat it, or none
  bool alone = false;           // the text does not follow "nothing diverged, but "
};

// Whatever the essentials: a comparison that checked less than half of the tensors that the step
// computes says nothing about the step.
std::string mostly_unchecked(const CompareReport& out) {
  const Coverage coverage = coverage_of(out);
  if (!are_most(coverage.computed_unchecked, coverage.computed)) return "";
  return render({"{unchecked} of {computed:tensor} that the step computes were not checked",
                 {{"unchecked", coverage.computed_unchecked}, {"computed", coverage.computed}}});
}

Doubt describe_unreadable(const RunState& state, const CompareReport& out) {
  if (state.lost_reference_ranks + state.lost_candidate_ranks > 0) {
    return {describe_lost_ranks(state, out), "unreadable"};
  }
  const std::uint64_t unreadable = out.counts.at(Outcome::kUnreadable);
  if (unreadable == 0) return {};
  return {render({"{unreadable} of {all} tensors could not be read",
                  {{"unreadable", unreadable}, {"all", out.results.size()}}}),
          "unreadable"};
}

Doubt describe_unanswered(const CompareReport& out) {
  const auto found =
      std::find_if(out.results.begin(), out.results.end(), [&out](const TensorComparison& result) {
        return is_unanswered(result) && !is_excused(out, result);
      });
  if (found == out.results.end()) return {};
  return {render({"{tensor} was not checked ({reason})",
                  {{"tensor", to_string(found->key)}, {"reason", found->reason}}})};
}

Doubt describe_growth(const CompareReport& out) {
  if (out.growth.tensors == 0) return {};
  return {render({"{tensors} of {all} tensors are off by what rounding of convolutions may do; "
                  "noise runs (--noise) decide it",
                  {{"tensors", out.growth.tensors}, {"all", out.results.size()}}}),
          "not_judged"};
}

Doubt describe_rerouted(const CompareReport& out) {
  const std::uint64_t after = out.counts.at(Outcome::kAfterRoutingFlip);
  if (after == 0) return {};
  return {render({"{after} of {all} tensors could not be judged: they follow tokens that went to "
                  "other experts near a tie, which is no bug; higher precision flips fewer",
                  {{"after", after}, {"all", out.results.size()}}}),
          "after_routing_flips"};
}

// Returns the first of the reasons that there are.
Doubt first_of(std::initializer_list<Doubt> doubts) {
  const auto found = std::find_if(doubts.begin(), doubts.end(),
                                  [](const Doubt& doubt) { return !doubt.text.empty(); });
  return found == doubts.end() ? Doubt{} : *found;
}

// Returns why nothing at all was checked, or empty.
std::string nothing_checked(const CompareReport& out) {
  const auto count = [&out](Outcome outcome) { return out.counts.at(outcome); };
  if (count(Outcome::kMatch) == 0) {
    return render(
        {"nothing was really checked: {below} of {all} tensors are below the noise floor, "
         "{skipped} were skipped",
         {{"below", count(Outcome::kBelowNoiseFloor)},
          {"all", out.results.size()},
          {"skipped", count(Outcome::kSkippedByRule)}}});
  }
  if (elements_matched(out) == 0) {
    return render({"nothing was compared: the tensors that match have no elements", {}});
  }
  return "";
}

// Returns why a run in which nothing diverged is inconclusive, if it is.
Doubt doubt_of(const RunState& state, const CompareReport& out) {
  const Doubt unjudged = first_of({describe_unreadable(state, out), describe_growth(out),
                                   describe_unanswered(out), describe_rerouted(out)});
  if (!unjudged.text.empty()) return unjudged;
  if (std::string why = nothing_checked(out); !why.empty()) return {std::move(why), "", true};
  const Doubt unchecked = first_of({{essentials_not_recorded(out), "not_recorded_by_candidate"},
                                    {essentials_left_out(out), "common"},
                                    {essentials_unchecked(out)},
                                    {updates_unchecked(out)},
                                    {essentials_not_finite(out)},
                                    {mostly_unchecked(out)},
                                    {base::printable(state.padding_in_doubt)},
                                    {state.unrecorded_main_gradients}});
  if (!unchecked.text.empty() || !state.same_run) return unchecked;
  return {render({"the reference and the candidate are the same run, so nothing was checked; give "
                  "a run of the job in the place of one of them",
                  {}}),
          "", true};
}

}  // namespace

void decide(const RunState& state, CompareReport& out) {
  const std::uint64_t total = out.results.size();
  if (out.interrupted) return inconclusive(describe_interruption(out), out);
  if (total == 0) {
    return inconclusive(render({"nothing was compared: both traces are empty", {}}), out);
  }
  if (!has_any_in_common(out)) {
    const Doubt lost = describe_unreadable(state, out);
    if (lost.text.empty()) return inconclusive(nothing_in_common(out), out);
    return inconclusive(render({"nothing was compared: {why}", {{"why", lost.text}}}), out,
                        lost.about);
  }
  const Doubt doubt = doubt_of(state, out);
  const bool bad = std::any_of(out.results.begin(), out.results.end(),
                               [](const auto& result) { return judge::is_bad(result.outcome); });
  if (bad || !out.settings.empty()) {
    out.verdict = answer::Verdict::kWrong;
    out.besides = doubt.text;
    return;
  }
  if (!doubt.text.empty()) {
    return inconclusive(doubt.alone
                            ? doubt.text
                            : render({"nothing diverged, but {doubt}", {{"doubt", doubt.text}}}),
                        out, doubt.about);
  }
  out.verdict = answer::Verdict::kRight;
}

}  // namespace ttrace::comparison
