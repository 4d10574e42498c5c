// Updates of an optimizer, one element after the other: by the formula of the kernels with plain
// numbers, whose bits every instruction set must give, and by another one that follows torch's
// operations one by one, whose values and bounds are the measure of the first.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <vector>

#include "measure/cpu/kernel.h"
#include "measure/optimizer/step.h"
#include "measure/optimizer/update_formula.h"

namespace ttrace::test {

// The inputs of a step, all of one length; a state that does not exist yet is empty.
struct UpdateColumns {
  std::span<const double> parameter;
  std::span<const double> gradient;  // before clipping
  double clip = 1;                   // clipping multiplies the gradient by it
  std::span<const double> momentum_buffer;
  std::span<const double> exp_avg;
  std::span<const double> exp_avg_sq;
  std::span<const double> max_exp_avg_sq;
};

struct Replayed {
  explicit Replayed(std::size_t count) : values(count), bounds(count) {}

  std::vector<double> values;
  std::vector<double> bounds;
};

namespace exact {

// Relative errors of a beta and of a bias correction that were computed in single precision.
inline constexpr double kBetaError = 0x1p-25;
inline constexpr double kCorrectionError = 0x1p-23;
inline constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct ExactTerm {
  double value = 0;
  double error = 0;
};

// The gradient that enters the update: sign, clipping, coupled weight decay. A product of three
// rounded factors, then a sum.
struct GradientRule {
  double factor = 1;
  double decay = 0;
  double working = 0;
  double gradient_error = 0;
  double parameter_error = 0;
  double smallest = 0;

  GradientRule(const measure::Hyperparameters& h, const measure::StepRoundoffs& r, double clip)
      : factor(h.maximize ? -clip : clip),
        decay(h.algorithm == measure::Algorithm::kAdamW ? 0 : h.weight_decay),
        working(decay != 0 ? r.working : 0),
        gradient_error(clip < 1 ? r.gradient : 0),
        parameter_error(r.parameter),
        smallest(decay != 0 || clip < 1 ? r.smallest : 0) {}

  ExactTerm operator()(double gradient, double parameter) const {
    const double g = factor * gradient;
    const double decayed = decay * parameter;
    const double sum = g + decayed;
    return {sum, gradient_error * std::abs(g) + parameter_error * std::abs(decayed) +
                     working * (2 * std::abs(decayed) + std::abs(sum)) + (sum != 0 ? smallest : 0)};
  }
};

// From the update to the stored parameter: parameter · shrink − lr · update, then possibly a
// rounding to a narrower type.
struct ParameterRule {
  double lr = 0;
  double shrink = 1;
  double before_error = 0;  // relative to the old value
  double after_error = 0;   // relative to the new value
  double smallest = 0;
  double second_order = 1;  // products of the errors above

  ParameterRule(const measure::Hyperparameters& h, const measure::StepRoundoffs& r)
      : lr(h.lr),
        smallest(std::max(r.smallest, r.stored_smallest)),
        second_order(1 + 32 * r.working) {
    const bool decoupled = h.algorithm == measure::Algorithm::kAdamW && h.weight_decay != 0;
    if (decoupled) shrink = 1 - h.lr * h.weight_decay;
    before_error = r.parameter * std::abs(shrink) + (decoupled ? 2 * r.working : 0);
    after_error = r.working + r.stored;
  }

  void operator()(double parameter, const ExactTerm& update, double& value, double& bound) const {
    value = parameter * shrink - lr * update.value;
    bound = second_order * (lr * update.error + before_error * std::abs(parameter) +
                            after_error * std::abs(value) + smallest);
  }
};

// |m / √v| is largest for gradients that grow as (β1/β2)^-t (Cauchy and Schwarz).
inline double largest_adam_update(const measure::Hyperparameters& h, double correction1,
                                  double root2) {
  const double ratio = h.beta1 * h.beta1 / h.beta2;
  if (!(ratio < 1)) return kInfinity;
  constexpr double kRoundings = 2;
  return kRoundings * (1 - h.beta1) / std::sqrt((1 - h.beta2) * (1 - ratio)) * root2 / correction1;
}

inline double at(std::span<const double> state, std::size_t i) {
  return state.empty() ? 0 : state[i];
}

inline void replay_sgd(const measure::Hyperparameters& h, const measure::StepRoundoffs& r,
                       const UpdateColumns& in, std::span<double> values,
                       std::span<double> bounds) {
  const GradientRule gradient(h, r, in.clip);
  const ParameterRule parameter(h, r);
  const bool first = in.momentum_buffer.empty();
  const double weight = first ? 1 : 1 - h.dampening;  // torch: the first buffer is the gradient
  const double w = r.working;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const ExactTerm g = gradient(in.gradient[i], in.parameter[i]);
    ExactTerm update = g;
    if (h.momentum != 0) {
      const double kept = h.momentum * at(in.momentum_buffer, i);
      const double added = weight * g.value;
      const double rounded = first ? 0 : 3 * w * (std::abs(kept) + std::abs(added));
      const ExactTerm buffer{kept + added, std::abs(weight) * g.error + rounded};
      update = buffer;
      if (h.nesterov) {
        const double ahead = h.momentum * buffer.value;
        update.value = g.value + ahead;
        update.error = g.error + h.momentum * buffer.error +
                       w * (2 * std::abs(ahead) + std::abs(update.value));
      }
    }
    update.error += 2 * w * std::abs(update.value) + r.smallest;
    parameter(in.parameter[i], update, values[i], bounds[i]);
  }
}

inline void replay_adam(const measure::Hyperparameters& h, const measure::StepRoundoffs& r,
                        const UpdateColumns& in, std::span<double> values,
                        std::span<double> bounds) {
  const GradientRule gradient(h, r, in.clip);
  const ParameterRule parameter(h, r);
  const double w = r.working;
  const double b1 = h.beta1;
  const double b2 = h.beta2;
  const auto t = static_cast<double>(h.updates);
  const double correction1 = 1 - std::pow(b1, t);
  const double correction2 = 1 - std::pow(b2, t);
  const double root2 = std::sqrt(correction2);
  const double beta_error = r.single_constants ? kBetaError : 0;
  // d(1 - b^t) = t · b^(t-1) · db
  const double constant_error = r.single_constants ? kCorrectionError : 0;
  const double error1 =
      (constant_error + t * std::pow(b1, t - 1) * beta_error) / correction1 + 4 * w;
  const double error2 =
      (constant_error + t * std::pow(b2, t - 1) * beta_error) / correction2 + 4 * w;
  const double largest_update = largest_adam_update(h, correction1, root2);
  const double kept1 = std::max(b1, 1 - b1);  // lerp forms (1 - b1)·(g - m), the others b1·m
  for (std::size_t i = 0; i < values.size(); ++i) {
    const ExactTerm g = gradient(in.gradient[i], in.parameter[i]);
    const double m0 = at(in.exp_avg, i);
    const double v0 = at(in.exp_avg_sq, i);
    const double squared = g.value * g.value;

    const double m = b1 * m0 + (1 - b1) * g.value;
    const double m_size = kept1 * std::abs(m0) + (1 - b1) * std::abs(g.value);
    const double m_error = (1 - b1) * g.error + 4 * w * m_size +
                           beta_error * (std::abs(m0) + std::abs(g.value)) +
                           (m_size > 0 ? r.smallest : 0);

    const double v = b2 * v0 + (1 - b2) * squared;
    const double v_error = (1 - b2) * g.error * (2 * std::abs(g.value) + g.error) + 5 * w * v +
                           beta_error * (v0 + squared) + (v > 0 ? r.smallest : 0);
    const double largest_v = h.amsgrad ? std::max(v, at(in.max_exp_avg_sq, i)) : v;
    const double root = std::sqrt(largest_v);
    // √v − √(v − e), or the most that √ can change where e is larger than v.
    const double below = std::sqrt(std::max(largest_v - v_error, 0.0));
    const double root_error = largest_v > v_error ? v_error / (root + below) : std::sqrt(v_error);

    const double denominator = root / root2 + h.eps;
    const double denominator_error = root_error / root2 + error2 * denominator + 2 * r.smallest;
    ExactTerm update;
    update.value = m / correction1 / denominator;
    update.error = (m_error / correction1 + std::abs(update.value) * denominator_error) /
                       (denominator - denominator_error) +
                   error1 * std::abs(update.value);
    // If gradient and weight decay cancel, for example, any step that some gradient makes is
    // possible.
    const double any = std::abs(update.value) + largest_update;
    update.error = denominator_error < denominator / 2 ? update.error : any;
    const bool underflow = v > 0 && !(16 * std::sqrt(r.smallest) / root2 < denominator);
    const bool overflow = !(squared <= r.largest);
    update.error = underflow || overflow ? kInfinity : update.error;
    parameter(in.parameter[i], update, values[i], bounds[i]);
  }
}

}  // namespace exact

// The second one.
inline Replayed exact_replay(const measure::UpdateStep& step, UpdateColumns in) {
  in.clip = step.clip;
  Replayed out(in.parameter.size());
  switch (step.hyperparameters.algorithm) {
    case measure::Algorithm::kNone:
      out.values.assign(in.parameter.begin(), in.parameter.end());
      return out;
    case measure::Algorithm::kSgd:
      exact::replay_sgd(step.hyperparameters, step.rounding, in, out.values, out.bounds);
      return out;
    case measure::Algorithm::kAdam:
    case measure::Algorithm::kAdamW:
      exact::replay_adam(step.hyperparameters, step.rounding, in, out.values, out.bounds);
      return out;
  }
  return out;
}

struct ScalarMath {
  using Number = double;

  static double root(double a) { return std::sqrt(a); }
  static double magnitude(double a) { return std::abs(a); }
  static bool less(double a, double b) { return a < b; }
  static bool not_less(double a, double b) { return !(a < b); }
  static bool not_at_most(double a, double b) { return !(a <= b); }
  static double choose(bool which, double a, double b) { return which ? a : b; }
  static bool any(bool mask) { return mask; }
  static bool both(bool a, bool b) { return a && b; }
  static bool either(bool a, bool b) { return a || b; }
  static double if_positive(double a, double value) { return a > 0 ? value : 0; }
};

template <measure::GradientKind kGradient>
measure::Bounded<double> scalar_step(const measure::UpdateFormula& f,
                                     const measure::UpdateInputs<double>& in) {
  if (f.kind == measure::UpdateKind::kSgd) return measure::sgd_step<ScalarMath, kGradient>(f, in);
  return f.amsgrad ? measure::adam_step<ScalarMath, kGradient, true>(f, in)
                   : measure::adam_step<ScalarMath, kGradient, false>(f, in);
}

inline measure::Bounded<double> scalar_step(const measure::UpdateFormula& f,
                                            const measure::UpdateInputs<double>& in) {
  if (f.kind == measure::UpdateKind::kCopy) return {in.parameter, 0};
  switch (f.gradient) {
    case measure::GradientKind::kExact:
      return scalar_step<measure::GradientKind::kExact>(f, in);
    case measure::GradientKind::kClipped:
      return scalar_step<measure::GradientKind::kClipped>(f, in);
    case measure::GradientKind::kDecayed:
      break;
  }
  return scalar_step<measure::GradientKind::kDecayed>(f, in);
}

// The first one.
inline Replayed scalar_replay(const measure::UpdateStep& step, const UpdateColumns& in) {
  const auto f = measure::update_formula(step, !in.momentum_buffer.empty());
  const auto& state = in.momentum_buffer.empty() ? in.exp_avg : in.momentum_buffer;
  Replayed out(in.parameter.size());
  for (std::size_t i = 0; i < in.parameter.size(); ++i) {
    const auto made =
        scalar_step(f, {in.parameter[i], exact::at(in.gradient, i), exact::at(state, i),
                        exact::at(in.exp_avg_sq, i), exact::at(in.max_exp_avg_sq, i)});
    out.values[i] = made.value;
    out.bounds[i] = made.error;
  }
  return out;
}

// Numbers as a kernel reads them.
inline measure::UpdateTile tile_of(const UpdateColumns& in) {
  const auto column = [](std::span<const double> numbers) {
    return measure::StoredColumn{measure::StoredType::kF64,
                                 numbers.empty() ? nullptr : numbers.data()};
  };
  measure::UpdateTile tile;
  tile.count = in.parameter.size();
  tile.updated = column(in.parameter);
  tile.inputs[0] = column(in.parameter);
  tile.inputs[1] = column(in.gradient);
  tile.inputs[2] = column(in.momentum_buffer.empty() ? in.exp_avg : in.momentum_buffer);
  tile.inputs[3] = column(in.exp_avg_sq);
  tile.inputs[4] = column(in.max_exp_avg_sq);
  return tile;
}

inline Replayed kernel_replay(const measure::Kernel& kernel, const measure::UpdateStep& step,
                              const UpdateColumns& in) {
  Replayed out(in.parameter.size());
  std::vector<double> updated(in.parameter.size());
  kernel.replay(measure::update_formula(step, !in.momentum_buffer.empty()), tile_of(in),
                updated.data(), out.values.data(), out.bounds.data());
  return out;
}

}  // namespace ttrace::test
