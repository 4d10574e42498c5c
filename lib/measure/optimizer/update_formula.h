// The formula of an optimizer's step, for one element or for a vector of them: plain functions over
// a number type, so that every instruction set and every device computes the same bits. `Math`
// names the type and its operations that are not operators (measure/cpu/vector_math.h has those of
// vectors). Part of the kernels' objects: the linker must not see it.
//
// Follows torch.optim.SGD, Adam and AdamW (2.13). The bounds are a running error analysis of their
// operations in any order in which they are implemented (single tensor, foreach, fused, Apex and
// TransformerEngine).
#pragma once

#include "measure/optimizer/update_constants.h"

#ifdef __CUDACC__
#define TTRACE_FORMULA __host__ __device__ inline
#else
#define TTRACE_FORMULA [[gnu::always_inline]] inline
#endif

namespace ttrace::measure {
namespace {

template <typename Number>
struct Bounded {
  Number value;
  Number error;
};

template <typename Number>
struct UpdateInputs {
  Number parameter;
  Number gradient;
  Number state;  // momentum_buffer or exp_avg; 0 if it does not exist yet
  Number exp_avg_sq;
  Number max_exp_avg_sq;
};

// The gradient that enters the update. A product of three rounded factors, then a sum.
template <typename Math, GradientKind kKind>
TTRACE_FORMULA Bounded<typename Math::Number> gradient_term(const UpdateFormula& f,
                                                            typename Math::Number gradient,
                                                            typename Math::Number parameter) {
  using Number = typename Math::Number;
  const Number g = f.factor * gradient;
  if constexpr (kKind == GradientKind::kExact) return {g, Number{}};
  const Number scaled = f.gradient_error * Math::magnitude(g) + f.gradient_smallest;
  if constexpr (kKind == GradientKind::kClipped) return {g, scaled};
  const Number decayed = f.decay * parameter;
  const Number sum = g + decayed;
  return {sum, f.decay_error * Math::magnitude(decayed) +
                   (f.gradient_working * Math::magnitude(sum) + scaled)};
}

// From the step, lr · update, to the stored parameter, then possibly a rounding to a narrower type.
template <typename Math>
TTRACE_FORMULA Bounded<typename Math::Number> parameter_term(
    const UpdateFormula& f, typename Math::Number parameter,
    const Bounded<typename Math::Number>& step) {
  using Number = typename Math::Number;
  const Number value = parameter * f.shrink - step.value;
  return {value, f.bound_of_step * step.error + f.bound_of_old * Math::magnitude(parameter) +
                     (f.bound_of_new * Math::magnitude(value) + f.bound_smallest)};
}

template <typename Math, GradientKind kGradient>
TTRACE_FORMULA Bounded<typename Math::Number> sgd_step(
    const UpdateFormula& f, const UpdateInputs<typename Math::Number>& in) {
  using Number = typename Math::Number;
  const Bounded<Number> g = gradient_term<Math, kGradient>(f, in.gradient, in.parameter);
  Bounded<Number> update = g;
  if (f.momentum != 0) {
    const Number kept = f.momentum * in.state;
    const Number added = f.weight * g.value;
    update.value = kept + added;
    update.error = Math::magnitude(f.weight + Number{}) * g.error;
    if (!f.first) {
      update.error += 3.0 * f.working * (Math::magnitude(kept) + Math::magnitude(added));
    }
    if (f.nesterov) {
      const Number ahead = f.momentum * update.value;
      update.value = g.value + ahead;
      update.error = g.error + f.momentum * update.error +
                     f.working * (2.0 * Math::magnitude(ahead) + Math::magnitude(update.value));
    }
  }
  update.error += 2.0 * f.working * Math::magnitude(update.value) + f.smallest;
  return parameter_term<Math>(f, in.parameter, {f.lr * update.value, f.lr * update.error});
}

// The moments of Adam and what they are made of.
template <typename Number>
struct Moments {
  Bounded<Number> gradient;
  Number gradient_size;
  Number old_size;  // of the first moment
  Number squared;   // gradient
  Number first;
  Number second;
  Number largest;  // second moment
};

template <typename Math, GradientKind kGradient, bool kAmsgrad>
TTRACE_FORMULA Moments<typename Math::Number> moments_of(
    const UpdateFormula& f, const UpdateInputs<typename Math::Number>& in) {
  Moments<typename Math::Number> made;
  made.gradient = gradient_term<Math, kGradient>(f, in.gradient, in.parameter);
  made.gradient_size = Math::magnitude(made.gradient.value);
  made.old_size = Math::magnitude(in.state);
  made.squared = made.gradient.value * made.gradient.value;
  made.first = f.kept1 * in.state + f.added1 * made.gradient.value;
  made.second = f.kept2 * in.exp_avg_sq + f.added2 * made.squared;
  made.largest = made.second;
  if constexpr (kAmsgrad) {
    made.largest =
        Math::choose(Math::less(made.second, in.max_exp_avg_sq), in.max_exp_avg_sq, made.second);
  }
  return made;
}

// The step of any element.
template <typename Math, GradientKind kGradient>
TTRACE_FORMULA Bounded<typename Math::Number> any_step(
    const UpdateFormula& f, const UpdateInputs<typename Math::Number>& in,
    const Moments<typename Math::Number>& of, typename Math::Number root,
    typename Math::Number denominator) {
  using Number = typename Math::Number;
  const Number zero{};
  const Number v = of.largest;
  Number m_error = f.kept1_error * of.old_size + f.added1_error * of.gradient_size +
                   Math::if_positive(of.old_size + of.gradient_size, f.smallest1);
  Number v_error = f.kept2_error * in.exp_avg_sq + f.added2_error * of.squared +
                   Math::if_positive(of.second, f.smallest);
  if constexpr (kGradient != GradientKind::kExact) {
    // A gradient of zero is exact.
    const Number g_error =
        of.gradient.error -
        (f.gradient_smallest - Math::if_positive(of.gradient_size, f.gradient_smallest));
    m_error += f.added1 * g_error;
    v_error += f.added2 * g_error * (2.0 * of.gradient_size + g_error);
  }
  // √v − √(v − e), or the most that √ can change where e is larger than v.
  const Number rest = v - v_error;
  const Number below = Math::root(Math::choose(Math::less(zero, rest), rest, zero));
  const Number root_error =
      Math::choose(Math::less(v_error, v), v_error / (root + below), Math::root(v_error));
  const Number error =
      root_error * f.over_root2 + (f.error2 * denominator + f.denominator_smallest);
  Bounded<Number> step;
  step.value = of.first / denominator;
  const Number size = Math::magnitude(step.value);
  step.error = (m_error + size * error) / (denominator - error) + f.error1 * size;
  // If gradient and weight decay cancel, for example, any step that some gradient makes is
  // possible.
  step.error =
      Math::choose(Math::less(error, 0.5 * denominator), step.error, size + f.largest_step);
  const auto underflow =
      Math::both(Math::less(zero, of.second), Math::not_less(f.underflow + zero, denominator));
  const auto overflow = Math::not_at_most(of.squared, f.largest_squared + zero);
  step.error = Math::choose(Math::either(underflow, overflow), __builtin_inf() + zero, step.error);
  return step;
}

template <typename Math, GradientKind kGradient, bool kAmsgrad>
TTRACE_FORMULA Bounded<typename Math::Number> adam_step(
    const UpdateFormula& f, const UpdateInputs<typename Math::Number>& in) {
  using Number = typename Math::Number;
  const Number zero{};
  const Moments<Number> made = moments_of<Math, kGradient, kAmsgrad>(f, in);
  const Number root = Math::root(made.largest);
  const Number denominator = root * f.over_root2 + f.eps;
  const Number inverse = 1.0 / (root * denominator);
  const Number over_denominator = inverse * root;

  Number m_error =
      f.kept1_error * made.old_size + (f.plain_added1 * made.gradient_size + f.plain_smallest1);
  // The root's share in the denominator's relative error is half of v's error over √v ·
  // denominator.
  Number v_error =
      f.plain_kept2 * in.exp_avg_sq + (f.plain_added2 * made.squared + f.plain_smallest2);
  if constexpr (kGradient == GradientKind::kDecayed) {
    const Number g_error = made.gradient.error;
    m_error += f.added1 * g_error;
    v_error += f.plain_decayed2 * g_error * (2.0 * made.gradient_size + g_error);
  }
  const Number off = v_error * inverse + f.plain_error2;
  Bounded<Number> step;
  step.value = made.first * over_denominator;
  const Number size = Math::magnitude(step.value);
  step.error =
      (m_error * over_denominator + size * off) * (1.0 + off * f.plain_slope) + f.error1 * size;

  auto others = Math::either(Math::not_at_most(f.plain_from + zero, made.largest),
                             Math::not_at_most(made.largest, f.plain_to + zero));
  if constexpr (kGradient == GradientKind::kDecayed) {
    others = Math::either(others, Math::not_at_most(v_error, f.plain_share2 * made.largest));
  }
  if (Math::any(others)) {
    const Bounded<Number> exact = any_step<Math, kGradient>(f, in, made, root, denominator);
    step.value = Math::choose(others, exact.value, step.value);
    step.error = Math::choose(others, exact.error, step.error);
  }
  return parameter_term<Math>(f, in.parameter, step);
}

}  // namespace
}  // namespace ttrace::measure
