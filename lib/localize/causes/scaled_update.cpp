#include <cmath>

#include "base/display_limits.h"
#include "base/text.h"
#include "layout/mesh.h"
#include "localize/causes/gradient_parts.h"
#include "localize/causes/trial.h"
#include "measure/step_difference.h"
#include "trace/normed_parts.h"

namespace ttrace::localize {
namespace {

constexpr double kMostLeftOfUpdate = 0.1;  // of the difference, that a factor may leave
constexpr double kOffFactor = 1e-3;
constexpr std::uint64_t kFewestOfDecay = 32;  // elements
constexpr double kMostOffRatio = 1e-3;        // relative, of a ratio of norms

// The part of the gradients by whose norm the update would have been clipped; empty if of all.
std::string clipped_by(const Case& the_case, double factor) {
  const trace::TensorKey& key = the_case.result->key;
  const trace::NormedParts parts(the_case.related->candidate_run().manifest());
  const NormedGradients normed{key.step, parts.part_with(key.step, key.name)};
  const bool clips = parts.limit(key.step, normed.part) ||
                     !the_case.related->of_kind(trace::Kind::kGradNorm).empty();
  if (!clips) return "";
  const auto all = norm_of_all(*the_case.related, normed);
  if (!all) return "";
  for (const PartNorm& part : norms_of_parts(*the_case.related, normed)) {
    if (part.norm > 0 && std::abs(factor * part.norm / *all - 1) <= kMostOffRatio) {
      return part.words;
    }
  }
  return "";
}

Cause whole_scaled(const Case& the_case, double factor, double uncertainty, double left,
                   double error) {
  const std::string clipped = clipped_by(the_case, factor);
  base::Message evidence{
      "its update is {multiple} times {reference}'s[, as if clipped by the norm of "
      "{clipped_by} "
      "and not of all] (what is left: {left_of_difference} of the difference)",
      {{"multiple", describe_factor(factor, uncertainty)}, {"left_of_difference", left / error}}};
  if (!clipped.empty()) evidence.values.emplace_back("clipped_by", clipped);
  // A buffer is named by what it is, an update by what it does.
  const bool is_buffer = the_case.result->key.kind == trace::Kind::kBufferAfterStep;
  return cause_of(
      the_case, "scaled", "", evidence, relative_to_reference(the_case, left),
      {{"factor", factor}, {is_buffer ? "moved" : "times", shortest_factor(factor, uncertainty)}});
}

// Of steps that are multiples of the reference's, each of `parts` by a factor of its own.
// `steps.parts` must be of these.
Cause parts_scaled(const Case& the_case, const measure::StepDifference& steps,
                   const std::vector<measure::RankBoxes>& parts, double left) {
  std::vector<std::string> wrong;
  for (std::size_t i = 0; i < steps.parts.size(); ++i) {
    const measure::StepSums& part = steps.parts[i];
    const double factor = part.rr > 0 ? 1 + part.rd / part.rr : 1;
    const double uncertainty = part.rr > 0 ? std::sqrt(part.left_by_factor() / part.rr) : 0;
    if (std::abs(factor - 1) <= std::max(kOffFactor, uncertainty)) continue;
    wrong.push_back(
        base::render({"{multiple} times the reference's on {ranks} ({elements} of "
                      "{all} elements)",
                      {{"multiple", describe_factor(factor, uncertainty)},
                       {"ranks", layout::describe_ranks(parts[i].ranks)},
                       {"elements", part.elements},
                       {"all", steps.total.elements}}}));
  }
  std::string text;
  for (std::size_t i = 0; i < wrong.size() && i < base::kShown.names; ++i) {
    text += base::concat(i > 0 ? ", " : "", wrong[i]);
  }
  if (wrong.size() > base::kShown.names) text += ", ...";
  const double error = std::sqrt(steps.total.dd);
  return cause_of(the_case, "scaled_update", "",
                  {"its update is {parts}, and right elsewhere (what is left: "
                   "{left_of_difference} of the difference)",
                   {{"parts", text}, {"left_of_difference", left / error}}},
                  relative_to_reference(the_case, left), {{"parts", text}});
}

}  // namespace

std::vector<Cause> find_scaled_update(const Case& the_case) {
  if (the_case.related == nullptr || the_case.result == nullptr || the_case.exact) return {};
  const trace::TensorKey& key = the_case.result->key;
  const auto elements = tensor::element_count(the_case.result->shape);
  const bool of_buffer = key.kind == trace::Kind::kBufferAfterStep;
  if ((!of_buffer && key.kind != trace::Kind::kParamAfterStep) || the_case.conflict) return {};
  if (!elements || *elements < 2 || *elements > kMostElementsForCauses) return {};
  const auto* const before =
      record_of(the_case, of_buffer ? trace::Kind::kBuffer : trace::Kind::kParam);
  if (before == nullptr) return {};
  // The ranks that update a part hold its gradient, while all may hold what was updated.
  const auto* const gradient = record_of(the_case, trace::Kind::kMainGrad);
  const std::vector<measure::RankBoxes> parts =
      gradient == nullptr ? std::vector<measure::RankBoxes>{} : comparison::parts_of(*gradient);
  const measure::StepDifference steps = measure::difference_of_steps(
      {the_case.related->reference(*before), the_case.reference, std::nullopt},
      {the_case.related->candidate(*before), the_case.candidate, std::nullopt}, parts);
  const measure::StepSums& total = steps.total;
  if (!(total.rr > 0) || !std::isfinite(total.cc)) return {};
  const double error = std::sqrt(total.dd);
  const double left = std::sqrt(total.left_by_factor());
  const double left_by_parts = std::sqrt(steps.left_by_parts().value_or(total.dd));
  const double left_by_decay = std::sqrt(steps.left_by_parameter());
  const auto explains_update = [&](double rest) {
    // Where the candidate hardly moved, any multiple near 0 leaves little: that is an update of its
    // own, or none, which find_stale names.
    return error > 0 && rest <= kMostLeftOfUpdate * error && 2 * rest < std::sqrt(total.cc);
  };
  if (explains_update(left)) {
    const double factor = 1 + total.rd / total.rr;
    if (std::abs(factor) < kMostLeftOfUpdate * kMostLeftOfUpdate) return {};
    return {whole_scaled(the_case, factor, left / std::sqrt(total.rr), left, error)};
  }
  // With a single part the whole was measured, whatever the gradient's parts are.
  if (steps.parts.size() > 1 && explains_update(left_by_parts)) {
    return {parts_scaled(the_case, steps, parts, left_by_parts)};
  }
  if (explains_update(left_by_decay) && total.elements >= kFewestOfDecay) {
    const double times = steps.along_parameter / steps.parameter;
    return {cause_of(the_case, "scaled_update", "",
                     {"its update differs by {times} times the parameter, as another weight decay "
                      "makes it (what is left: {left_of_difference} of the difference)",
                      {{"times", times}, {"left_of_difference", left_by_decay / error}}},
                     relative_to_reference(the_case, left_by_decay), {{"decay", times}})};
  }
  reject(the_case, "scaled", left);
  return {};
}

}  // namespace ttrace::localize
