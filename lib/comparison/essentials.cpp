#include "comparison/essentials.h"

#include <cmath>
#include <map>

#include "answer/update_coverage.h"
#include "base/message.h"
#include "base/text.h"
#include "comparison/coverage.h"
#include "judge/fallback_rule.h"

namespace ttrace::comparison {
namespace {

using base::render;
using judge::Outcome;
using trace::Kind;

bool has_no_elements(const TensorComparison& result) {
  return result.outcome == Outcome::kMatch && result.comparison &&
         result.comparison->measurement.total.elements == 0;
}

// Whether a tensor that takes part was not judged.
bool is_unchecked(const TensorComparison& result) {
  return result.outcome == Outcome::kBelowNoiseFloor || result.outcome == Outcome::kNotJudged ||
         result.incomplete || has_no_elements(result);
}

// The median root mean square of the main gradients' elements, in the reference.
double usual_gradient(const CompareReport& report) {
  judge::TypicalSize sizes;
  for (const TensorComparison& result : report.results) {
    if (result.key.kind != Kind::kMainGrad || !result.comparison) continue;
    const measure::TileStats& stats = result.comparison->measurement.total;
    sizes.add(Kind::kMainGrad, measure::reference_norm(stats), stats.elements);
  }
  return sizes.rms(Kind::kMainGrad);
}

// Whether both sides are known to be zero but for rounding, compared with the `usual` size of
// others: a tolerance as wide as the tensor then checks it well enough.
bool is_zero_but_for_rounding(const TensorComparison& result, double usual) {
  if (result.outcome != Outcome::kBelowNoiseFloor || !result.comparison || !(usual > 0)) {
    return false;
  }
  const double elements = static_cast<double>(result.comparison->measurement.total.elements);
  return result.comparison->tolerance.allowed_norm() <=
         kMostOfUsualGradient * usual * std::sqrt(elements);
}

std::string reason_of(const TensorComparison& result) {
  return has_no_elements(result) ? render({"it has no elements", {}}) : result.reason;
}

}  // namespace

std::string essentials_not_recorded(const CompareReport& report) {
  std::map<Kind, std::uint64_t> lacking;
  for (const TensorComparison& result : report.results) {
    if (result.outcome != Outcome::kNotRecorded || result.incomplete) continue;
    if (result.lacking == TraceSide::kCandidate) ++lacking[result.key.kind];
  }
  std::string text;
  for (const auto& [kind, noun] : {std::pair(Kind::kLoss, "loss"),
                                   {Kind::kGradNorm, "gradient norm"},
                                   {Kind::kMainGrad, "main gradient"}}) {
    const auto found = lacking.find(kind);
    if (found == lacking.end()) continue;
    text += base::concat(text.empty() ? "" : ", ", base::plural(found->second, noun));
  }
  if (text.empty()) return "";
  return render(
      {"the candidate was told not to record {tensors} of the reference; record them too, or "
       "select with --kind or --only",
       {{"tensors", text}}});
}

std::string essentials_left_out(const CompareReport& report) {
  std::uint64_t others = 0;
  const TensorComparison* first = nullptr;
  for (const TensorComparison& result : report.results) {
    const Kind kind = result.key.kind;
    if (result.skipped != SkippedFor::kCommon) continue;
    if (kind != Kind::kParam && kind != Kind::kLoss && kind != Kind::kMainGrad) continue;
    others += first == nullptr ? 0 : 1;
    if (first == nullptr) first = &result;
  }
  if (first == nullptr) return "";
  const std::string name = to_string(first->key);
  if (others == 0) {
    return render({"{tensor} is left out, because one side alone has it", {{"tensor", name}}});
  }
  return render(
      {"{tensor} and {others} more parameters, losses or main gradients are left out, because one "
       "side alone has them",
       {{"tensor", name}, {"others", others}}});
}

std::string essentials_unchecked(const CompareReport& report) {
  std::uint64_t gradients = 0;
  std::uint64_t unchecked_gradients = 0;
  const TensorComparison* incomplete = nullptr;
  const double usual = usual_gradient(report);
  for (const TensorComparison& result : report.results) {
    const Kind kind = result.key.kind;
    const bool unchecked = is_unchecked(result) && !is_excused(report, result) &&
                           !(kind == Kind::kMainGrad && is_zero_but_for_rounding(result, usual));
    if (kind == Kind::kMainGrad) {
      gradients += unchecked || result.outcome == Outcome::kMatch ? 1 : 0;
      unchecked_gradients += unchecked ? 1 : 0;
      if (result.incomplete && incomplete == nullptr) incomplete = &result;
    } else if ((kind == Kind::kLoss || kind == Kind::kGradNorm) && unchecked) {
      return render({"{tensor} was not checked ({reason})",
                     {{"tensor", to_string(result.key)}, {"reason", reason_of(result)}}});
    }
  }
  if (!are_too_many_gradients(unchecked_gradients, gradients)) return "";
  const std::string why =
      incomplete != nullptr
          ? incomplete->reason
          : render({"their tolerances are as wide as they are, or none is known", {}});
  return render({"{unchecked} of {all:main gradient} were not checked: {why}",
                 {{"unchecked", unchecked_gradients}, {"all", gradients}, {"why", why}}});
}

std::string updates_unchecked(const CompareReport& report) {
  answer::UpdateCount updates;
  for (const TensorComparison& result : report.results) {
    if (result.key.kind != Kind::kParamAfterStep || is_excused(report, result)) continue;
    const bool unchecked = is_unchecked(result);
    if (!unchecked && result.outcome != Outcome::kMatch) continue;
    updates.add(result.key.name, !unchecked, reason_of(result));
  }
  return updates.total().why_too_few();
}

std::string essentials_not_finite(const CompareReport& report) {
  std::uint64_t tensors = 0;
  const TensorComparison* first = nullptr;
  for (const TensorComparison& result : report.results) {
    const Kind kind = result.key.kind;
    const bool essential = kind == Kind::kLoss || kind == Kind::kGradNorm ||
                           kind == Kind::kMainGrad || kind == Kind::kParam ||
                           kind == Kind::kParamAfterStep;
    if (!essential || !is_mostly_not_finite(result) || is_excused(report, result)) continue;
    if (tensors++ == 0) first = &result;
  }
  if (first == nullptr) return "";
  const std::string name = to_string(first->key);
  if (tensors == 1) {
    return render({"most of {tensor} is not finite on both sides", {{"tensor", name}}});
  }
  return render(
      {"most of {tensor} and of {others} more losses, gradient norms, parameters and main "
       "gradients is not finite on both sides",
       {{"tensor", name}, {"others", tensors - 1}}});
}

}  // namespace ttrace::comparison
