#include "report/coverage_clauses.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text.h"
#include "comparison/coverage.h"
#include "report/answer_text.h"

namespace ttrace::report {
namespace {

using Values = std::vector<std::pair<std::string_view, base::Message::Value>>;
using comparison::Coverage;
using comparison::Tally;
using comparison::TensorComparison;

constexpr auto kUnchecked = Clause::Weight::kUnchecked;
constexpr auto kDoubt = Clause::Weight::kDoubt;
constexpr auto kFact = Clause::Weight::kFact;

// The clauses while they are collected, the most serious first.
class Clauses {
 public:
  // Adds a clause about the tensors of `tally`, none if there are none. Its templates also have
  // {count}; `in_short` may be empty.
  void add(std::string_view name, Clause::Weight weight, const Tally& tally, std::string_view text,
           std::string_view in_short = {}, Values values = {}) {
    if (tally.empty()) return;
    values.emplace_back("count", tally.tensors);
    clauses_.push_back({name, weight, tally.tensors, {text, std::move(values)}, in_short});
  }
  // Adds a clause about the run as a whole.
  void add_of_run(std::string_view name, Clause::Weight weight, std::string_view text,
                  Values values = {}) {
    clauses_.push_back({name, weight, 0, {text, std::move(values)}, {}});
  }

  std::vector<Clause> take() && { return std::move(clauses_); }

 private:
  std::vector<Clause> clauses_;
};

// The reason without the file that it is of, and up to a word: the first line says elsewhere which
// runs these are, and the whole reason stands below it.
std::string brief_reason(std::string_view reason, std::string_view path) {
  constexpr std::size_t kMost = 64;  // bytes
  if (reason.substr(0, path.size()) == path && reason.substr(path.size(), 2) == ": ") {
    reason.remove_prefix(path.size() + 2);
  }
  if (reason.size() <= kMost) return std::string(reason);
  const std::size_t space = reason.rfind(' ', kMost);
  if (space == std::string_view::npos || space == 0) return base::shortened(reason, kMost);
  return base::concat(reason.substr(0, space), " …");
}

void add_not_recorded(std::string_view name, const char* side, const std::string& path,
                      const Tally& tally, Clauses& clauses) {
  constexpr std::string_view kPlain = "{count} not recorded by the {side}";
  if (tally.empty()) return;
  const bool has_reason = tally.first->incomplete;
  clauses.add(name, kUnchecked, tally,
              has_reason ? "{count} not recorded by the {side} ({reason})" : kPlain,
              has_reason ? "{count} not recorded by the {side} ({brief})" : kPlain,
              {{"side", std::string(side)},
               {"reason", tally.first->reason},
               {"brief", brief_reason(tally.first->reason, path)}});
}

void add_other_implementation(const Tally& tally, Clauses& clauses) {
  if (tally.empty()) return;
  clauses.add("other_implementation", kUnchecked, tally,
              "{count} not recorded by the other implementation ({reason})",
              "{count} not recorded by the other implementation",
              {{"reason", tally.first->reason}});
}

// Names the kinds that a comparison of training steps is about and that neither run has. A run that
// does not clip has no gradient norm, and activations are often left out on purpose.
void add_kinds_in_neither(const comparison::CompareReport& report, Clauses& clauses) {
  std::string kinds;
  for (const trace::Kind kind :
       {trace::Kind::kLoss, trace::Kind::kMainGrad, trace::Kind::kParamAfterStep}) {
    const auto& lacking = report.kinds_in_neither;
    if (std::find(lacking.begin(), lacking.end(), kind) == lacking.end()) continue;
    kinds += base::concat(kinds.empty() ? "" : ", ", kind_name(kind));
  }
  if (kinds.empty()) return;
  clauses.add_of_run("kinds_in_neither", kDoubt, "neither run has {kinds}", {{"kinds", kinds}});
}

// "(model)[1] · output" of the glob "*/*/output/(model)[1]/*/*"; another glob as it is.
std::string of_glob(const std::string& glob) {
  constexpr std::string_view kHead = "*/*/";
  constexpr std::string_view kTail = "/*/*";
  if (!glob.starts_with(kHead) || !glob.ends_with(kTail)) return glob;
  const std::size_t kind = kHead.size();
  const std::size_t name = glob.find('/', kind);
  const std::size_t end = glob.size() - kTail.size();
  if (name >= end) return glob;
  return base::concat(glob.substr(name + 1, end - name - 1), " · ", glob.substr(kind, name - kind));
}

void add_left_out_by_both(const comparison::CompareReport& report, Clauses& clauses) {
  const std::vector<trace::Incomplete>& both = report.left_out_by_both;
  if (both.empty()) return;
  const std::uint64_t more = both.size() - 1;
  clauses.add_of_run("left_out_by_both", kDoubt,
                     more == 0 ? "both runs left out {first} ({reason})"
                               : "both runs left out {first} ({reason}) and {more} more",
                     {{"first", of_glob(both.front().tensors)},
                      {"reason", brief_reason(both.front().reason, "")},
                      {"more", more}});
}

void add_left_out(const comparison::CompareReport& report, Clauses& clauses) {
  if (!report.left_out) return;
  const comparison::LeftOut& left_out = *report.left_out;
  if (left_out.total() == 0) {
    return clauses.add_of_run("common", kFact, "no tensor is on one side only");
  }
  clauses.add_of_run("common", kFact,
                     "{count:tensor} that only one side has left out ({reference} of the "
                     "reference, {candidate} of the candidate)",
                     {{"count", left_out.total()},
                      {"reference", left_out.of_reference},
                      {"candidate", left_out.of_candidate}});
}

void add_precisions(const comparison::CompareReport& report, Clauses& clauses) {
  const std::string& of_reference = report.reference.precision;
  const std::string& of_candidate = report.candidate.precision;
  if (!of_reference.empty() && !of_candidate.empty() && of_reference != of_candidate) {
    return clauses.add_of_run("precision", kFact,
                              "the reference ran in {reference}, the candidate in {candidate}",
                              {{"reference", of_reference}, {"candidate", of_candidate}});
  }
  Tally differing;
  for (const TensorComparison& result : report.results) {
    if (result.candidate_dtype && result.comparison) differing.add(result);
  }
  if (differing.empty()) return;
  const TensorComparison& first = *differing.first;
  clauses.add("precision", kFact, differing,
              "the precisions of {count:tensor} differ ({key}: reference {reference}, candidate "
              "{candidate})",
              "the precisions of {count:tensor} differ",
              {{"key", to_string(first.key)},
               {"reference", std::string(dtype_short_name(first.dtype))},
               {"candidate", std::string(dtype_short_name(*first.candidate_dtype))}});
}

// Elements on the other side of a kink make tolerances wider, which is to be seen.
void add_kinks(const comparison::CompareReport& report, const Tally& tally, Clauses& clauses) {
  if (tally.empty()) return;
  std::uint64_t flipped = 0;
  bool signs_alone = true;
  double widest = 0;
  for (const comparison::KinkFlips& flips : report.kinks) {
    flipped += flips.flipped;
    signs_alone = signs_alone && flips.at_limits == 0 && flips.at_maxima == 0;
  }
  for (const TensorComparison& result : report.results) {
    if (!result.comparison || !(result.comparison->tolerance.kinks > 0)) continue;
    const double norm = measure::reference_norm(result.comparison->measurement.total);
    if (norm > 0) widest = std::max(widest, result.comparison->tolerance.kinks / norm);
  }
  clauses.add(
      "kinks", kDoubt, tally,
      "{count} with room of up to {room} for {flipped:element} that rounding put on the "
      "other side of a kink such as a ReLU",
      signs_alone
          ? "{count} with room for {flipped:element} on the other side of a ReLU"
          : "{count} with room for {flipped:element} on the other side of a ReLU or maximum",
      {{"room", percent(widest)}, {"flipped", flipped}});
}

// A type that the candidate says it computed in makes tolerances wider, which is to be seen.
void add_widened(const Tally& widened, Clauses& clauses) {
  if (widened.empty()) return;
  const TensorComparison& first = *widened.first;
  clauses.add("computed_in", kFact, widened,
              "{count} judged as {type} instead of {stored}, by the candidate's computed_in",
              "{count} judged as {type} by computed_in",
              {{"type", std::string(dtype_short_name(*first.candidate->computed_in))},
               {"stored", std::string(dtype_short_name(first.candidate->dtype))}});
}

void add_skipped_steps(const comparison::CompareReport& report, Clauses& clauses) {
  const std::vector<std::uint64_t>& steps = report.skipped_steps;
  if (steps.empty()) return;
  clauses.add_of_run("scaler_skipped", kDoubt,
                     steps.size() == 1
                         ? "a loss scaler skipped step {first} on both sides"
                         : "a loss scaler skipped {steps:step} on both sides, the first is {first}",
                     {{"steps", std::uint64_t{steps.size()}}, {"first", steps.front()}});
}

void add_late_start(const comparison::CompareReport& report, Clauses& clauses) {
  if (!report.late_start) return;
  const comparison::LateStart& late = *report.late_start;
  clauses.add_of_run("late_start", kDoubt,
                     late.updates > 0
                         ? "recorded after {updates:update}: the start was not compared"
                         : "compared from step {step} on: the start was not compared",
                     {{"updates", late.updates}, {"step", late.step}});
}

void add_values(const Coverage& coverage, Clauses& clauses) {
  const Tally& not_finite = coverage.not_finite;
  clauses.add("not_finite", kDoubt, not_finite,
              "{count} {count?holds|hold} values that are not finite on both sides ({key})",
              "{count} not finite on both sides",
              {{"key", not_finite.empty() ? "" : to_string(not_finite.first->key)}});
  clauses.add("without_elements", kDoubt, coverage.without_elements, "{count} without elements");
  clauses.add("zero", kDoubt, coverage.zero, "{count} zero on both sides");
}

}  // namespace

std::vector<Clause> coverage_clauses(const comparison::CompareReport& report) {
  const Coverage coverage = comparison::coverage_of(report);
  Clauses clauses;
  clauses.add("unreadable", kUnchecked, coverage.unreadable, "{count} could not be read");
  add_not_recorded("not_recorded_by_candidate", "candidate", report.candidate.path,
                   coverage.not_recorded_by_candidate, clauses);
  add_not_recorded("not_recorded_by_reference", "reference", report.reference.path,
                   coverage.not_recorded_by_reference, clauses);
  add_other_implementation(coverage.other_implementation, clauses);
  add_kinds_in_neither(report, clauses);
  add_left_out_by_both(report, clauses);
  clauses.add("below_noise_floor", kUnchecked, coverage.below_noise_floor,
              "{count} below the noise floor");
  clauses.add("not_judged", kUnchecked, coverage.not_judged, "{count} not judged");
  clauses.add("after_routing_flips", kUnchecked, coverage.after_routing_flips,
              "{count} not judged after routing flips");
  clauses.add("routing_flips", kDoubt, coverage.routing_flips,
              "{count} with tokens routed elsewhere near a tie");
  add_late_start(report, clauses);
  add_skipped_steps(report, clauses);
  add_values(coverage, clauses);
  clauses.add("trimmed", kDoubt, coverage.trimmed,
              coverage.trimmed_alike ? "{rows:row} of {count:tensor} left out"
                                     : "up to {rows:row} of {count:tensor} left out",
              {}, {{"rows", coverage.rows_trimmed}});
  add_kinks(report, coverage.kinks, clauses);
  add_widened(coverage.widened, clauses);
  clauses.add("start_by_policy", kDoubt, coverage.start_by_policy,
              "{count} stored before the step allowed to differ by rules of {file}",
              "{count} of the start allowed to differ by rules", {{"file", report.tolerance_file}});
  clauses.add("skipped_by_policy", kFact, coverage.skipped_by_policy,
              "{count} skipped by rules of {file}", "{count} skipped by rules",
              {{"file", report.tolerance_file}});
  clauses.add("dropped_by_map", kFact, coverage.dropped_by_map, "{count} dropped by {file}",
              "{count} dropped by the map", {{"file", report.map_rules}});
  add_left_out(report, clauses);
  add_precisions(report, clauses);
  return std::move(clauses).take();
}

}  // namespace ttrace::report
