#include "measure/optimizer/step.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace ttrace::measure {

std::optional<double> unit_roundoff(tensor::DType dtype) {
  switch (dtype) {
    case tensor::DType::kFloat64:
      return 0x1p-53;
    case tensor::DType::kFloat32:
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

// Relative errors of a beta and of a bias correction that were computed in single precision.
constexpr double kBetaError = 0x1p-25;
constexpr double kCorrectionError = 0x1p-23;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Term {
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

  GradientRule(const Hyperparameters& h, const Rounding& r, double clip)
      : factor(h.maximize ? -clip : clip),
        decay(h.algorithm == Algorithm::kAdamW ? 0 : h.weight_decay),
        working(decay != 0 ? r.working : 0),
        gradient_error(clip < 1 ? r.gradient : 0),
        parameter_error(r.parameter),
        smallest(decay != 0 || clip < 1 ? r.smallest : 0) {}

  Term operator()(double gradient, double parameter) const {
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

  ParameterRule(const Hyperparameters& h, const Rounding& r)
      : lr(h.lr),
        smallest(std::max(r.smallest, r.stored_smallest)),
        second_order(1 + 32 * r.working) {
    const bool decoupled = h.algorithm == Algorithm::kAdamW && h.weight_decay != 0;
    if (decoupled) shrink = 1 - h.lr * h.weight_decay;
    before_error = r.parameter * std::abs(shrink) + (decoupled ? 2 * r.working : 0);
    after_error = r.working + r.stored;
  }

  void operator()(double parameter, const Term& update, double& value, double& bound) const {
    value = parameter * shrink - lr * update.value;
    bound = second_order * (lr * update.error + before_error * std::abs(parameter) +
                            after_error * std::abs(value) + smallest);
  }
};

// |m / √v| is largest for gradients that grow as (β1/β2)^-t (Cauchy and Schwarz).
double largest_adam_update(const Hyperparameters& h, double correction1, double root2) {
  const double ratio = h.beta1 * h.beta1 / h.beta2;
  if (!(ratio < 1)) return kInfinity;
  constexpr double kRoundings = 2;
  return kRoundings * (1 - h.beta1) / std::sqrt((1 - h.beta2) * (1 - ratio)) * root2 / correction1;
}

double at(std::span<const double> state, std::size_t i) { return state.empty() ? 0 : state[i]; }

void replay_sgd(const Hyperparameters& h, const Rounding& r, const Inputs& in,
                std::span<double> values, std::span<double> bounds) {
  const GradientRule gradient(h, r, in.clip);
  const ParameterRule parameter(h, r);
  const bool first = in.momentum_buffer.empty();
  const double weight = first ? 1 : 1 - h.dampening;  // torch: the first buffer is the gradient
  const double w = r.working;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const Term g = gradient(in.gradient[i], in.parameter[i]);
    Term update = g;
    if (h.momentum != 0) {
      const double kept = h.momentum * at(in.momentum_buffer, i);
      const double added = weight * g.value;
      const double rounded = first ? 0 : 3 * w * (std::abs(kept) + std::abs(added));
      const Term buffer{kept + added, std::abs(weight) * g.error + rounded};
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

void replay_adam(const Hyperparameters& h, const Rounding& r, const Inputs& in,
                 std::span<double> values, std::span<double> bounds) {
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
    const Term g = gradient(in.gradient[i], in.parameter[i]);
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
    Term update;
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

}  // namespace

void replay(const Hyperparameters& hyperparameters, const Rounding& rounding, const Inputs& inputs,
            std::span<double> values, std::span<double> bounds) {
  switch (hyperparameters.algorithm) {
    case Algorithm::kNone:
      std::copy(inputs.parameter.begin(), inputs.parameter.end(), values.begin());
      std::fill(bounds.begin(), bounds.end(), 0);
      return;
    case Algorithm::kSgd:
      return replay_sgd(hyperparameters, rounding, inputs, values, bounds);
    case Algorithm::kAdam:
    case Algorithm::kAdamW:
      return replay_adam(hyperparameters, rounding, inputs, values, bounds);
  }
}

double clip_coefficient(double clip_norm, double norm) {
  constexpr double kAgainstZero = 1e-6;
  return std::min(1.0, clip_norm / (norm + kAgainstZero));
}

}  // namespace ttrace::measure
