#include "measure/optimizer/step.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/functions.h"

namespace ttrace::measure {

std::optional<double> unit_roundoff(tensor::DType dtype) {
  switch (dtype) {
    case tensor::DType::kFloat64:
      return 0x1p-53;
    case tensor::DType::kFloat32:
    case tensor::DType::kTensorFloat32:  // of products alone: updates are in float32
      return 0x1p-24;
    case tensor::DType::kFloat16:
      return 0x1p-11;
    case tensor::DType::kBFloat16:
      return 0x1p-8;
    default:
      return std::nullopt;
  }
}

double smallest_rounding(tensor::DType dtype) {
  switch (dtype) {
    case tensor::DType::kFloat64:
      return 0x1p-1022;
    case tensor::DType::kFloat16:
      return 0x1p-24;
    default:
      return 0x1p-126;
  }
}

double largest_finite(tensor::DType dtype) {
  switch (dtype) {
    case tensor::DType::kFloat64:
      return std::numeric_limits<double>::max();
    case tensor::DType::kFloat16:
      return 65504;
    case tensor::DType::kBFloat16:
      return 0x1.FEp127;
    default:
      return 0x1.FFFFFEp127;
  }
}

namespace {

// How far a beta and a bias correction in single precision may be off: half the spacing of the
// numbers just below 1, and four times that for a power and a difference.
constexpr double kBetaError = 0x1p-25;
constexpr double kCorrectionError = 0x1p-23;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

GradientKind gradient_kind(double decay, double clip) {
  if (decay != 0) return GradientKind::kDecayed;
  return clip < 1 ? GradientKind::kClipped : GradientKind::kExact;
}

void set_gradient(const Hyperparameters& h, const StepRoundoffs& r, double clip, UpdateFormula& f) {
  f.factor = h.maximize ? -clip : clip;
  f.decay = h.algorithm == Algorithm::kAdamW ? 0 : h.weight_decay;
  f.gradient = gradient_kind(f.decay, clip);
  f.gradient_working = f.decay != 0 ? r.working : 0;
  f.gradient_error = clip < 1 ? r.gradient : 0;
  f.decay_error = r.parameter + 2 * f.gradient_working;
  f.gradient_smallest = f.decay != 0 || clip < 1 ? r.smallest : 0;
}

// The bound is second_order · (lr · error + before · |p| + after · |value| + smallest).
void set_parameter(const Hyperparameters& h, const StepRoundoffs& r, UpdateFormula& f) {
  const bool decoupled = h.algorithm == Algorithm::kAdamW && h.weight_decay != 0;
  const double second_order = 1 + 32 * r.working;  // products of the errors
  f.lr = h.lr;
  f.shrink = decoupled ? 1 - h.lr * h.weight_decay : 1;
  f.bound_of_step = second_order;
  f.bound_of_old =
      second_order * (r.parameter * std::abs(f.shrink) + (decoupled ? 2 * r.working : 0));
  f.bound_of_new = second_order * (r.working + r.stored);
  f.bound_smallest = second_order * std::max(r.smallest, r.stored_smallest);
}

// |m / √v| is largest for gradients that grow as (β1/β2)^-t (Cauchy and Schwarz).
double largest_adam_update(const Hyperparameters& h, double correction1, double root2) {
  const double ratio = h.beta1 * h.beta1 / h.beta2;
  if (!(ratio < 1)) return kInfinity;
  constexpr double kRoundings = 2;
  return kRoundings * (1 - h.beta1) / std::sqrt((1 - h.beta2) * (1 - ratio)) * root2 / correction1;
}

// Sets the constants of plain elements: their errors, with those of a clipped gradient, and the
// range of second moments in which nothing over- or underflows.
void set_plain(const Hyperparameters& h, const StepRoundoffs& r, UpdateFormula& f) {
  // The gradient's error is e·|g| + s, and 2·s·|g| ≤ kShare·w·g² + s²/(kShare·w).
  constexpr double kShare = 0x1p-10;
  const bool clipped = f.gradient == GradientKind::kClipped;
  const double e = clipped ? f.gradient_error : 0;
  const double s = clipped ? f.gradient_smallest : 0;
  const double share = clipped ? kShare * r.working : 0;
  f.plain_added1 = f.added1_error + f.added1 * e;
  f.plain_smallest1 = f.smallest1 + f.added1 * s;
  const double added2 = f.added2_error + f.added2 * (e * (2 + e) + share * (1 + e));
  const double smallest2 = f.smallest + (clipped ? f.added2 * s * (s + s * (1 + e) / share) : 0);

  constexpr double kMargin = 0x1p9;  // if v exceeds the smallest by this factor, √v does not
                                     // underflow
  constexpr double kLargest = 0x1p900;
  f.plain_from = kMargin * r.smallest;
  f.plain_to = std::min((1 - 0x1p-40) * (1 - h.beta2) * r.largest, kLargest);
  // The largest error of a plain v, relative to it: √v − √(v − e) ≤ half · e / √v.
  constexpr double kMostDecayed = 0x1p-10;
  double most = std::max(f.kept2_error / f.kept2, added2 / f.added2) + smallest2 / f.plain_from;
  if (f.gradient == GradientKind::kDecayed) most = std::max(most, kMostDecayed);
  const double half = f.over_root2 / (1 + std::sqrt(1 - most));
  f.plain_kept2 = f.kept2_error * half;
  f.plain_added2 = added2 * half;
  f.plain_decayed2 = f.added2 * half;
  f.plain_smallest2 = smallest2 * half;
  f.plain_share2 = most * half;
  f.plain_error2 = f.error2 + std::sqrt(r.smallest);
  const double off = most / (1 + std::sqrt(1 - most)) + f.plain_error2;
  f.plain_slope = 1 / (1 - off);
  constexpr double kSmall = 0.125;
  const bool small = most <= kSmall && off <= kSmall;
  if (!small) f.plain_from = kInfinity;
}

void set_adam(const Hyperparameters& h, const StepRoundoffs& r, UpdateFormula& f) {
  const double w = r.working;
  const double b1 = h.beta1;
  const double b2 = h.beta2;
  const auto t = static_cast<double>(h.updates);
  const double correction1 = 1 - base::power(b1, t);
  const double correction2 = 1 - base::power(b2, t);
  const double root2 = std::sqrt(correction2);
  const double beta_error = r.single_constants ? kBetaError : 0;
  // d(1 - b^t) = t · b^(t-1) · db
  const double constant_error = r.single_constants ? kCorrectionError : 0;
  const auto correction_error = [&](double b, double correction) {
    return (constant_error + t * base::power(b, t - 1) * beta_error) / correction + 4 * w;
  };
  const double kept1 = std::max(b1, 1 - b1);  // lerp forms (1 - b1)·(g - m), the others b1·m
  // Rounds each folded factor once; an implementation rounds every factor that it folds.
  const auto folded = [](auto number) { return static_cast<double>(number); };
  const long double exact_factor1 = static_cast<long double>(h.lr) / correction1;
  const double factor1 = folded(exact_factor1);
  f.amsgrad = h.amsgrad;
  f.kept1 = folded(b1 * exact_factor1);
  f.added1 = folded((1 - b1) * exact_factor1);
  f.kept1_error = (4 * w * kept1 + beta_error) * factor1;
  f.added1_error = (4 * w * (1 - b1) + beta_error) * factor1;
  f.smallest1 = r.smallest * factor1;
  f.kept2 = b2;
  f.added2 = 1 - b2;
  f.kept2_error = 5 * w * b2 + beta_error;
  f.added2_error = 5 * w * (1 - b2) + beta_error;
  f.over_root2 = folded(1 / std::sqrt(static_cast<long double>(correction2)));
  f.eps = h.eps;
  f.error1 = correction_error(b1, correction1);
  f.error2 = correction_error(b2, correction2);
  f.denominator_smallest = 2 * r.smallest;
  f.largest_step = h.lr * largest_adam_update(h, correction1, root2);
  f.largest_squared = r.largest;
  f.underflow = 16 * std::sqrt(r.smallest) / root2;
  set_plain(h, r, f);
}

}  // namespace

UpdateFormula update_formula(const UpdateStep& step, bool has_buffer) {
  const Hyperparameters& h = step.hyperparameters;
  const StepRoundoffs& r = step.rounding;
  UpdateFormula f{};
  f.working = r.working;
  f.smallest = r.smallest;
  f.first = !has_buffer;
  f.weight = has_buffer ? 1 - h.dampening : 1;  // torch: the first buffer is the gradient
  set_gradient(h, r, step.clip, f);
  set_parameter(h, r, f);
  switch (h.algorithm) {
    case Algorithm::kNone:
      f.kind = UpdateKind::kCopy;
      return f;
    case Algorithm::kSgd:
      f.kind = UpdateKind::kSgd;
      f.momentum = h.momentum;
      f.nesterov = h.nesterov;
      break;
    case Algorithm::kAdam:
    case Algorithm::kAdamW:
      f.kind = UpdateKind::kAdam;
      set_adam(h, r, f);
      break;
  }
  return f;
}

double clip_coefficient(double clip_norm, double norm) {
  constexpr double kAgainstZero = 1e-6;
  return std::min(1.0, clip_norm / (norm + kAgainstZero));
}

}  // namespace ttrace::measure
