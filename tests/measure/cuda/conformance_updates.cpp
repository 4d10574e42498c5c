// Updates of optimizers: every branch of the formula, over inputs of several types.
#include <cmath>
#include <limits>
#include <memory>

#include "measure/cpu/cpu_backend.h"
#include "measure/cuda/conformance.h"
#include "measure/cuda/conformance_data.h"

namespace ttrace::test {

using measure::Algorithm;
using measure::UpdateStep;

namespace {

constexpr std::array kAlgorithms{Algorithm::kNone, Algorithm::kSgd, Algorithm::kAdam,
                                 Algorithm::kAdamW};
constexpr std::array kWorking{DType::kFloat32, DType::kFloat64, DType::kBFloat16};

UpdateStep draw_step(Draw& draw, Algorithm algorithm) {
  const DType working = kWorking[draw.between(0, 2)];
  UpdateStep step;
  measure::Hyperparameters& h = step.hyperparameters;
  h.algorithm = algorithm;
  h.lr = 1e-3;
  h.weight_decay = draw.between(0, 1) == 0 ? 0 : 0.1;
  h.maximize = draw.between(0, 3) == 0;
  h.updates = draw.between(1, 9);
  h.momentum = draw.between(0, 1) == 0 ? 0 : 0.9;
  h.nesterov = h.momentum > 0 && draw.between(0, 1) == 0;
  h.dampening = h.nesterov || draw.between(0, 1) == 0 ? 0 : 0.3;
  h.beta1 = 0.9;
  h.beta2 = draw.between(0, 1) == 0 ? 0.99 : 0.999;
  h.eps = draw.between(0, 4) == 0 ? 0 : 1e-8;
  h.amsgrad = draw.between(0, 2) == 0;
  measure::StepRoundoffs& r = step.rounding;
  r.working = *measure::unit_roundoff(working);
  r.gradient = 4 * r.working;
  r.stored = draw.between(0, 2) == 0 ? 0x1p-8 : 0;
  r.smallest = measure::smallest_rounding(working);
  r.largest = measure::largest_finite(working);
  r.single_constants = draw.between(0, 3) == 0;
  step.clip = draw.between(0, 1) == 0 ? 1 : 0.25;
  return step;
}

// Inputs that a step could have: numbers of all sizes, or of what `pattern` says.
Values draw_numbers(Draw& draw, DType dtype, std::size_t count, double size, bool positive,
                    Pattern pattern) {
  if (pattern != Pattern::kOrdinary) return Values(draw, dtype, count, pattern, 1);
  std::vector<double> numbers(count);
  for (double& number : numbers) {
    const double spread = std::exp2(static_cast<double>(draw.between(0, 24)) - 20);
    number = draw.between(0, 19) == 0 ? 0 : size * spread * draw.symmetric();
    if (positive) number = std::abs(number);
  }
  return Values(dtype, numbers);
}

struct UpdateResults {
  measure::TileStats stats;
  measure::UpdateSums sums;
};

void compare(Case& one, const UpdateResults& expected, const UpdateResults& actual) {
  one.same(expected.stats, actual.stats);
  one.same("unmoved", expected.sums.unmoved, actual.sums.unmoved);
  one.same("unjudged", expected.sums.unjudged, actual.sums.unjudged);
  one.same("sum_bound2", expected.sums.sum_bound2, actual.sums.sum_bound2);
  one.same("a worst", std::uint64_t{expected.sums.worst.has_value()},
           std::uint64_t{actual.sums.worst.has_value()});
  if (!expected.sums.worst || !actual.sums.worst) return;
  one.same("worst ratio", expected.sums.worst->ratio, actual.sums.worst->ratio);
  one.same("worst replayed", expected.sums.worst->replayed, actual.sums.worst->replayed);
  one.same("worst candidate", expected.sums.worst->candidate, actual.sums.worst->candidate);
  one.same("worst bound", expected.sums.worst->bound, actual.sums.worst->bound);
  one.same("place of the worst", expected.sums.worst->at, actual.sums.worst->at);
}

// One parameter, its inputs, and the parameter after the step: near the one before it, with some
// elements far away.
class UpdateCase {
 public:
  UpdateCase(Draw& draw, Algorithm algorithm, std::size_t count, Pattern pattern)
      : step_(draw_step(draw, algorithm)),
        box_(tensor::whole({count})),
        parameter_(draw_numbers(draw, kFloatTypes[draw.between(0, 3)], count, 1, false, pattern)),
        gradient_(draw_numbers(draw, kFloatTypes[draw.between(0, 3)], count, 0.01, false, pattern)),
        state_(draw_numbers(draw, DType::kFloat32, count, 0.01, false, pattern)),
        squares_(draw_numbers(draw, DType::kFloat32, count, 1e-4, true, pattern)),
        largest_(draw_numbers(draw, DType::kFloat32, count, 1e-4, true, pattern)),
        updated_(DType::kFloat32, moved(draw)) {
    has_state_ = draw.between(0, 3) > 0;
  }

  UpdateResults results(const measure::Backend& by) const {
    UpdateResults out;
    const std::unique_ptr<measure::Batch> batch = by.new_batch();
    measure::UpdateRequest request = this->request(updated_.as(box_), out);
    batch->add(request);
    batch->add(request);  // goes on from the worst so far
    request.updated = parameter_.as(box_);
    batch->add(request);
    batch->finish();
    return out;
  }

 private:
  measure::UpdateRequest request(const InputBox& updated, UpdateResults& out) const {
    measure::UpdateRequest request{updated, parameter_.as(box_), {},       {}, {}, {}, {},
                                   step_,   &out.stats,          &out.sums};
    const Algorithm algorithm = step_.hyperparameters.algorithm;
    if (algorithm == Algorithm::kNone) return request;
    request.gradient = gradient_.as(box_);
    if (!has_state_) return request;
    if (algorithm == Algorithm::kSgd) {
      request.momentum_buffer = state_.as(box_);
      return request;
    }
    request.exp_avg = state_.as(box_);
    request.exp_avg_sq = squares_.as(box_);
    if (step_.hyperparameters.amsgrad) request.max_exp_avg_sq = largest_.as(box_);
    return request;
  }

  std::vector<double> moved(Draw& draw) const {
    std::vector<double> numbers(tensor::volume(box_));
    tensor::decode_floats(parameter_.stored().dtype, parameter_.stored().bits, numbers);
    for (double& number : numbers) {
      number -= 1e-3 * draw.symmetric();
      if (draw.between(0, 999) == 0) number += draw.symmetric();
    }
    return numbers;
  }

  UpdateStep step_;
  tensor::Box box_;
  Values parameter_;
  Values gradient_;
  Values state_;
  Values squares_;
  Values largest_;
  Values updated_;
  bool has_state_ = true;
};

}  // namespace

Conformance check_updates(const measure::Backend& backend, std::uint64_t seed) {
  Conformance all;
  Draw draw(seed);
  constexpr std::array<std::size_t, 8> kCounts{0, 1, 31, 33, 1000, 4096, 4097, 13000};
  for (const Algorithm algorithm : kAlgorithms) {
    for (const std::size_t count : kCounts) {
      for (int i = 0; i < 6; ++i) {
        const Pattern pattern = i == 5   ? Pattern::kAnyBits
                                : i == 4 ? Pattern::kSprinkled
                                         : Pattern::kOrdinary;
        const UpdateCase made(draw, algorithm, count, pattern);
        Case one(all, concat("update ", static_cast<int>(algorithm), " of ", count, " elements, ",
                             pattern_name(pattern), ", number ", i));
        compare(one, made.results(measure::cpu_backend()), made.results(backend));
      }
    }
  }
  return all;
}

}  // namespace ttrace::test
