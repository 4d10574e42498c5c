#include <cmath>
#include <limits>
#include <vector>

#include "measure/cpu/kernel.h"
#include "measure/naive_update.h"
#include "measure/optimizer/step.h"
#include "support/catch.h"
#include "tensor/dtype.h"

namespace ttrace::measure::optimizer_step_test {
namespace {

using Values = std::vector<double>;

const double kNaN = std::numeric_limits<double>::quiet_NaN();

StepRoundoffs rounding_of(tensor::DType dtype) {
  StepRoundoffs rounding;
  rounding.working = *unit_roundoff(dtype);
  rounding.smallest = smallest_rounding(dtype);
  rounding.largest = largest_finite(dtype);
  return rounding;
}

using test::Replayed;
using Inputs = test::UpdateColumns;

// By the kernel of this machine.
Replayed replayed(const Hyperparameters& h, const Inputs& inputs,
                  const StepRoundoffs& rounding = rounding_of(tensor::DType::kFloat32)) {
  const UpdateStep step{h, rounding, inputs.clip};
  return test::kernel_replay(*usable_kernels().front(), step, inputs);
}

void check_same(const Values& found, const Values& wanted) {
  REQUIRE(found.size() == wanted.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    CAPTURE(i);
    CHECK(std::abs(found[i] - wanted[i]) <= 4 * 0x1p-52 * std::abs(wanted[i]));
  }
}

Hyperparameters adam(Algorithm algorithm = Algorithm::kAdam) {
  Hyperparameters h;
  h.algorithm = algorithm;
  h.lr = 0.01;
  h.weight_decay = 0.1;
  h.beta1 = 0.9;
  h.beta2 = 0.99;
  h.eps = 1e-8;
  h.updates = 3;
  return h;
}

// The known answers: three steps of torch.optim 2.13 in float64 from the parameter {1.5, -0.25,
// 0.0078125, -3}, with the gradients {0.5, -0.125, 2, 0}, {-0.25, 0.375, -1, 1e-9} and kGradient;
// parameter and state before the third step, parameter after it, printed with float.hex().
const Values kGradient{0.0625, 0.5, 0.25, -2.0};

TEST_CASE("SGD with momentum, Nesterov and weight decay makes what torch makes") {
  Hyperparameters h;
  h.algorithm = Algorithm::kSgd;
  h.lr = 0.1;
  h.weight_decay = 0.01;
  h.momentum = 0.9;
  h.nesterov = true;
  h.updates = 3;
  const Values before{0x1.67bfd5adf1eb4p+0, -0x1.252393adf2412p-2, -0x1.5fbeda9a6acfep-2,
                      -0x1.7e3b2c66cdd8dp+1};
  const Values buffer{0x1.d1f6cacd184c3p-3, 0x1.082f1ed17c5efp-2, 0x1.97baf6837f7bep-1,
                      -0x1.d27a1fce1dfd1p-5};
  Inputs inputs{before, kGradient, 1, buffer, {}, {}, {}};
  check_same(replayed(h, inputs).values, {0x1.5f4ed575ca6c4p+0, -0x1.9b42cb79d9210p-2,
                                          -0x1.d1c4ff3464962p-2, -0x1.4c4647141ca52p+1});
}

TEST_CASE("SGD with dampening that maximizes makes what torch makes") {
  Hyperparameters h;
  h.algorithm = Algorithm::kSgd;
  h.lr = 0.1;
  h.momentum = 0.9;
  h.dampening = 0.5;
  h.maximize = true;
  h.updates = 3;
  const Values before{0x1.951eb851eb852p+0, -0x1.051eb851eb852p-2, 0x1.59eb851eb851fp-2,
                      -0x1.7fffffffe4832p+1};
  const Values buffer{-0x1.4cccccccccccdp-2, -0x1.3333333333333p-4, -0x1.4cccccccccccdp+0,
                      -0x1.12e0be826d695p-31};
  Inputs inputs{before, kGradient, 1, buffer, {}, {}, {}};
  check_same(replayed(h, inputs).values, {0x1.9d6872b020c4ap+0, -0x1.c9374bc6a7efap-3,
                                          0x1.de872b020c49cp-2, -0x1.8ccccccc9892cp+1});
  // Without a buffer it is the first update: no dampening.
  inputs.momentum_buffer = {};
  check_same(replayed(h, inputs).values,
             {before[0] + 0.1 * kGradient[0], before[1] + 0.1 * kGradient[1],
              before[2] + 0.1 * kGradient[2], before[3] + 0.1 * kGradient[3]});
}

TEST_CASE("Adam makes what torch makes") {
  const Values before{0x1.7c08dc98cc72dp+0, -0x1.f42192de738b2p-3, -0x1.3e300ec6a7906p-8,
                      -0x1.7d70aaa1286a7p+1};
  const Values m{0x1.8c7e282441993p-5, 0x1.61e4f764286aep-6, 0x1.47e0ded291996p-4,
                 -0x1.d21ff2d745628p-5};
  const Values v{0x1.18ce581232011p-8, 0x1.7d5b4a7c6f74dp-10, 0x1.969ccefd7b175p-5,
                 0x1.d3edfe315cb3dp-10};
  const Inputs inputs{before, kGradient, 1, {}, m, v, {}};
  check_same(replayed(adam(), inputs).values, {0x1.7a7f42ed1b5afp+0, -0x1.013c7c0c285b3p-2,
                                               -0x1.f36798586392ap-8, -0x1.7c7600e4f33c5p+1});
}

TEST_CASE("AdamW with the largest second moments makes what torch makes") {
  Hyperparameters h = adam(Algorithm::kAdamW);
  h.amsgrad = true;
  h.maximize = true;
  const Values before{0x1.8278faa3f58a6p+0, -0x1.04aaa911bdf49p-2, 0x1.4f1dc73caa585p-6,
                      -0x1.7f2b62b7ee381p+1};
  const Values m{-0x1.47ae147ae147ap-6, -0x1.ae147ae147ae0p-6, -0x1.47ae147ae147ap-4,
                 -0x1.b7cdfd9d7bdb9p-34};
  const Values v{0x1.9652bd3c3611ap-9, 0x1.9930be0ded28fp-10, 0x1.9652bd3c3611ap-5,
                 0x1.79ca10c92422ap-67};
  const Inputs inputs{before, kGradient, 1, {}, m, v, v};
  const Replayed out = replayed(h, inputs);
  check_same(out.values, {0x1.82cb53dba95d4p+0, -0x1.f9bc53feb4771p-3, 0x1.7c1a428361049p-6,
                          -0x1.7f99add97e0c0p+1});
  // Bounds are some roundings of the parameter and the update, no more.
  for (std::size_t i = 0; i < out.values.size(); ++i) {
    CHECK(out.bounds[i] > 0x1p-24 * std::abs(out.values[i]));
    CHECK(out.bounds[i] < 3.1 * 0x1p-24 * std::abs(out.values[i]) + 64 * 0x1p-24 * h.lr);
  }
}

TEST_CASE("clipping multiplies the gradient") {
  CHECK(clip_coefficient(1, 0.5) == 1);
  CHECK(clip_coefficient(0.5, 2) == 0.5 / (2 + 1e-6));
  Hyperparameters h;
  h.algorithm = Algorithm::kSgd;
  h.lr = 1;
  const Values zero(4, 0);
  check_same(replayed(h, {zero, kGradient, 0.5, {}, {}, {}, {}}).values,
             {-0.03125, -0.25, -0.125, 1});
}

TEST_CASE("what no optimizer updates stays as it is, exactly") {
  const Replayed out = replayed({}, {kGradient, {}, 1, {}, {}, {}, {}});
  CHECK(out.values == kGradient);
  CHECK(out.bounds == Values(4, 0));
}

TEST_CASE("a gradient that weight decay cancels may become any step, but no larger one") {
  Hyperparameters h = adam();
  h.updates = 1;
  const Values parameter{1, 1};
  const Values gradient{-0.1 * (1 + 1e-9), 0.5};
  const Replayed out = replayed(h, {parameter, gradient, 1, {}, {}, {}, {}});
  CHECK(out.bounds[0] >= h.lr);
  CHECK(out.bounds[0] < 10 * h.lr);
  CHECK(out.bounds[1] < 1e-6 * h.lr + 0x1p-23);
}

TEST_CASE("a denominator that underflow decides has no bound") {
  Hyperparameters h = adam();
  h.weight_decay = 0;
  h.eps = 0;
  h.updates = 1;
  const Values parameter{1, 1, 1};
  const Values gradient{1e-30, 1, 1e30};
  const Replayed out = replayed(h, {parameter, gradient, 1, {}, {}, {}, {}});
  CHECK_FALSE(std::isfinite(out.bounds[0]));
  CHECK(std::isfinite(out.bounds[1]));
  CHECK_FALSE(std::isfinite(out.bounds[2]));  // its square overflows single precision
}

TEST_CASE("how a parameter is stored does not make its update's state underflow") {
  Hyperparameters h = adam();
  h.updates = 1;
  const Values parameter{1e-6, 1};
  const Values gradient{1e-4, 1e-4};  // the squares are subnormal in f16, the updates in f32
  StepRoundoffs rounding = rounding_of(tensor::DType::kFloat32);
  rounding.stored = *unit_roundoff(tensor::DType::kFloat16);
  rounding.stored_smallest = smallest_rounding(tensor::DType::kFloat16);
  const Replayed out = replayed(h, {parameter, gradient, 1, {}, {}, {}, {}}, rounding);
  CHECK(out.bounds[0] > 0x1p-25);  // half the spacing of f16's subnormal numbers
  CHECK(out.bounds[0] < 0x1p-10);
  CHECK(out.bounds[1] < 0x1p-10);
}

TEST_CASE("NaN and infinity come through") {
  const Values parameter{1, kNaN, 1};
  const Values gradient{kNaN, 1, std::numeric_limits<double>::infinity()};
  for (const Algorithm algorithm : {Algorithm::kSgd, Algorithm::kAdam, Algorithm::kAdamW}) {
    Hyperparameters h = adam(algorithm);
    h.updates = 1;
    const Replayed out = replayed(h, {parameter, gradient, 1, {}, {}, {}, {}});
    for (const double value : out.values) CHECK_FALSE(std::isfinite(value));
  }
}

TEST_CASE("constants in single precision widen the bounds by what they may be off") {
  Hyperparameters h = adam(Algorithm::kAdamW);
  h.updates = 1;
  const Values parameter{0};
  const Values gradient{1};
  StepRoundoffs rounding = rounding_of(tensor::DType::kFloat32);
  const double sharp = replayed(h, {parameter, gradient, 1, {}, {}, {}, {}}, rounding).bounds[0];
  rounding.single_constants = true;
  const double wide = replayed(h, {parameter, gradient, 1, {}, {}, {}, {}}, rounding).bounds[0];
  CHECK(sharp < 2e-6 * h.lr);
  CHECK(wide > sharp);
  CHECK(wide < 1e-4 * h.lr);
}

}  // namespace
}  // namespace ttrace::measure::optimizer_step_test
