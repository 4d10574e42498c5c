#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "measure/cpu/cpu_backend.h"
#include "measure/cpu/kernel.h"
#include "measure/naive_backend.h"
#include "measure/naive_update.h"
#include "property/random.h"
#include "support/catch.h"
#include "tensor/codec.h"

namespace ttrace::measure::update_kernel_test {
namespace {

using tensor::DType;
using test::Random;
using test::Replayed;
using test::UpdateColumns;
using Numbers = std::vector<double>;

constexpr std::array kFloats{DType::kFloat64,  DType::kFloat32,    DType::kFloat16,
                             DType::kBFloat16, DType::kFloat8E4M3, DType::kFloat8E5M2};
constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

struct Case {
  std::string name;
  UpdateStep step;
  bool has_state = true;
};

StepRoundoffs rounding_of(DType working) {
  StepRoundoffs rounding;
  rounding.working = *unit_roundoff(working) + 0x1p-53;
  rounding.gradient = 4 * *unit_roundoff(working);
  rounding.smallest = smallest_rounding(working);
  rounding.largest = largest_finite(working);
  return rounding;
}

Hyperparameters usual(Algorithm algorithm) {
  Hyperparameters h;
  h.algorithm = algorithm;
  h.lr = 1e-3;
  h.weight_decay = algorithm == Algorithm::kAdamW ? 0.01 : 0;
  h.updates = 7;
  h.beta1 = 0.9;
  h.beta2 = 0.999;
  h.eps = 1e-8;
  return h;
}

// Every branch of the formula, in three precisions.
std::vector<Case> cases() {
  std::vector<Case> all{{"none", {}}};
  for (const DType working : {DType::kFloat32, DType::kFloat64, DType::kBFloat16}) {
    const std::string in = std::string(tensor::dtype_short_name(working)) + " ";
    const auto add = [&](const std::string& name, const Hyperparameters& h, double clip = 1,
                         bool has_state = true, bool single_constants = false) {
      UpdateStep step{h, rounding_of(working), clip};
      step.rounding.single_constants = single_constants;
      all.push_back({in + name, step, has_state});
    };
    Hyperparameters sgd = usual(Algorithm::kSgd);
    add("sgd", sgd);
    sgd.weight_decay = 0.1;
    add("sgd with decay", sgd, 0.5);
    sgd.momentum = 0.9;
    sgd.dampening = 0.3;
    add("sgd with momentum", sgd);
    add("sgd, first step", sgd, 0.5, false);
    sgd.nesterov = true;
    sgd.dampening = 0;
    sgd.maximize = true;
    add("sgd with nesterov", sgd);
    add("adamw", usual(Algorithm::kAdamW));
    add("adamw, clipped", usual(Algorithm::kAdamW), 0.25);
    add("adamw, single constants", usual(Algorithm::kAdamW), 1, true, true);
    Hyperparameters adam = usual(Algorithm::kAdam);
    add("adam", adam);
    adam.maximize = true;
    adam.amsgrad = true;
    add("adam with amsgrad", adam);
    adam.weight_decay = 0.1;
    add("adam with decay", adam, 0.5);
    adam.eps = 0;
    add("adam without eps", adam);
    adam.updates = 1;
    adam.amsgrad = false;
    add("adam, first step", adam, 1, false);
  }
  return all;
}

// Numbers of sizes that parameters and gradients have, some zeros and some as small or as large as
// can be.
Numbers random_numbers(std::size_t count, double size, bool special, Random& random) {
  Numbers numbers(count);
  for (double& number : numbers) {
    number = size * random.symmetric() * std::exp2(24 * random.unit() - 20);
    if (random.between(0, 15) == 0) number = 0;
    if (!special || random.between(0, 15) != 0) continue;
    constexpr std::array kSpecial{kNan,   kInf,  -kInf, -0.0,  1e-45,
                                  -1e-40, 1e-30, 1e30,  1e200, 1e-200};
    number = kSpecial[static_cast<std::size_t>(random.between(0, kSpecial.size() - 1))];
  }
  return numbers;
}

struct Column {
  DType dtype = DType::kFloat32;
  std::vector<std::byte> bits;
  Numbers numbers;  // that the bits are

  Column(const Numbers& wanted, DType as) : dtype(as), numbers(wanted.size()) {
    bits.resize(wanted.size() * tensor::element_bytes(as));
    tensor::encode_floats(as, wanted, bits);
    tensor::decode_floats(as, bits, numbers);
  }
};

// The tensors of an update; each has its own type unless all are of one.
struct Tensors {
  Tensors(const Case& of, std::size_t count, const std::vector<DType>& dtypes, bool special,
          Random& random) {
    const auto add = [&](double size, bool positive = false) {
      Numbers numbers = random_numbers(count, size, special, random);
      if (positive) {
        for (double& number : numbers) number *= number;
      }
      const std::size_t which = static_cast<std::size_t>(random.between(0, dtypes.size() - 1));
      columns.emplace_back(numbers, dtypes[which]);
    };
    const Algorithm algorithm = of.step.hyperparameters.algorithm;
    add(1);
    add(0.01);
    add(0.01);
    add(0.01, true);
    add(0.01, true);
    const bool sgd = algorithm == Algorithm::kSgd;
    if (sgd && of.step.hyperparameters.momentum != 0 && of.has_state) has[2] = true;
    if (!sgd && algorithm != Algorithm::kNone && of.has_state) has[2] = has[3] = has[4] = true;
    is_sgd = sgd;
    // Near the replayed values, and where they were.
    const Replayed replayed = test::scalar_replay(of.step, view());
    Numbers updated = replayed.values;
    for (std::size_t i = 0; i < count; ++i) {
      if (random.between(0, 3) == 0) updated[i] += 3 * replayed.bounds[i] * random.symmetric();
      if (random.between(0, 31) == 0) updated[i] = columns[0].numbers[i];
    }
    columns.emplace_back(updated, dtypes.front());
  }

  std::span<const double> numbers(std::size_t c) const {
    return has[c] ? columns[c].numbers : std::span<const double>();
  }
  UpdateColumns view() const {
    return {numbers(0),
            numbers(1),
            1,
            is_sgd ? numbers(2) : std::span<const double>(),
            is_sgd ? std::span<const double>() : numbers(2),
            numbers(3),
            numbers(4)};
  }

  std::vector<Column> columns;  // the inputs of a tile, then the updated parameter
  std::array<bool, 6> has{true, true, false, false, false, true};
  bool is_sgd = false;
};

bool same_number(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

// The first element that has not the same bits, of NaNs aside.
std::size_t first_difference(const Numbers& a, const Numbers& b) {
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (std::isnan(a[i]) && std::isnan(b[i])) continue;
    if (a[i] != b[i] || std::signbit(a[i]) != std::signbit(b[i])) return i;
  }
  return a.size();
}

// Copies of the tensors, `shift` bytes from where they would be aligned.
struct Moved {
  Moved(const Tensors& of, std::size_t count, std::size_t shift) {
    tile.count = count;
    for (std::size_t c = 0; c < of.columns.size(); ++c) {
      const Column& column = of.columns[c];
      std::vector<std::byte>& copy = bytes.emplace_back(column.bits.size() + shift + 1);
      if (count > 0) std::memcpy(copy.data() + shift, column.bits.data(), column.bits.size());
      const StoredColumn here{stored_as(column.dtype), of.has[c] ? copy.data() + shift : nullptr};
      (c < kUpdateInputs ? tile.inputs[c] : tile.updated) = here;
    }
  }

  std::vector<std::vector<std::byte>> bytes;
  UpdateTile tile;
};

void check_kernels(const Case& of, std::size_t count, const Tensors& tensors) {
  const UpdateColumns in = tensors.view();
  const Replayed expected = test::scalar_replay(of.step, in);
  const UpdateFormula formula = update_formula(of.step, !in.momentum_buffer.empty());
  const Numbers& updated = tensors.columns.back().numbers;
  TileSums pair;
  usable_kernels().back()->sum(StoredType::kF64, expected.values.data(), updated.data(), count,
                               pair);
  test::LaneSum bound2;
  bool beyond = false;
  constexpr double kWorst = 0.5;
  for (std::size_t i = 0; i < count; ++i) {
    bound2.add(i, expected.bounds[i] * expected.bounds[i]);
    beyond = beyond || std::abs(updated[i] - expected.values[i]) > kWorst * expected.bounds[i];
  }
  for (const Kernel* kernel : usable_kernels()) {
    for (const std::size_t shift : {0U, 1U}) {
      CAPTURE(kernel->isa, shift);
      const Moved moved(tensors, count, shift);
      Replayed found(count);
      Numbers decoded(count);
      kernel->replay(formula, moved.tile, decoded.data(), found.values.data(), found.bounds.data());
      CHECK(first_difference(decoded, updated) == count);
      CHECK(first_difference(found.values, expected.values) == count);
      CHECK(first_difference(found.bounds, expected.bounds) == count);
      UpdateTileSums sums;
      kernel->judge(formula, moved.tile, kWorst, sums);
      const bool finite = std::isfinite(pair.r2) && std::isfinite(pair.c2);
      CHECK((std::isfinite(sums.pair.r2) && std::isfinite(sums.pair.c2)) == finite);
      CHECK(same_number(sums.bound2, bound2.total()));
      if (!finite) continue;
      CHECK(same_number(sums.pair.d2, pair.d2));
      CHECK(same_number(sums.pair.d, pair.d));
      CHECK(same_number(sums.pair.r2, pair.r2));
      CHECK(same_number(sums.pair.c2, pair.c2));
      CHECK(same_number(sums.pair.rc, pair.rc));
      CHECK(sums.pair.largest == pair.largest);
      CHECK(sums.beyond == beyond);
    }
  }
}

TEST_CASE("every kernel replays an update with the bits of plain numbers", "[kernels][replay]") {
  Random random(41);
  for (const Case& of : cases()) {
    CAPTURE(of.name);
    for (const std::size_t count : {0U, 1U, 7U, 31U, 32U, 33U, 511U, 513U, 4095U, 4096U}) {
      CAPTURE(count);
      for (const bool special : {false, true}) {
        check_kernels(of, count, Tensors(of, count, {DType::kFloat32}, special, random));
      }
    }
    for (const DType dtype : kFloats) {
      check_kernels(of, 100, Tensors(of, 100, {dtype}, true, random));
    }
    const std::vector<DType> mixed{DType::kBFloat16, DType::kFloat32, DType::kFloat64,
                                   DType::kFloat16};
    for (int i = 0; i < 4; ++i) check_kernels(of, 600, Tensors(of, 600, mixed, i > 1, random));
  }
}

TEST_CASE("the formula is as exact and its bounds are as sharp as torch's operations one by one",
          "[replay]") {
  Random random(42);
  for (const Case& of : cases()) {
    CAPTURE(of.name);
    const bool bf16 = of.step.rounding.working > 0x1p-10;
    const Tensors tensors(of, 4096, {DType::kFloat64}, true, random);
    const UpdateColumns in = tensors.view();
    const Replayed found = test::scalar_replay(of.step, in);
    const Replayed wanted = test::exact_replay(of.step, in);
    std::size_t wrong = 0;
    std::size_t finite = 0;
    for (std::size_t i = 0; i < found.values.size(); ++i) {
      const double q = wanted.values[i];
      const double bound = wanted.bounds[i];
      const bool parameter_is_finite = std::isfinite(in.parameter[i]);
      if (!std::isfinite(q) || !std::isfinite(bound)) {
        // An infinite parameter stays one, whatever else it is multiplied by.
        wrong +=
            parameter_is_finite && std::isfinite(found.values[i]) && std::isfinite(found.bounds[i])
                ? 1
                : 0;
        continue;
      }
      ++finite;
      // Roundings of binary64, measured in the bounds of an implementation in it.
      const double share = of.step.rounding.working < 0x1p-50 ? 1 : 0x1p-20;
      // To zeros and subnormal numbers the formula adds more errors of the smallest numbers.
      const double zeros =
          std::abs(q) < of.step.rounding.smallest ? 0x1p12 * of.step.rounding.smallest : 0;
      const bool near = std::abs(found.values[i] - q) <= share * bound;
      const bool sharp = found.bounds[i] >= bound * (1 - 1e-6) &&
                         found.bounds[i] <= bound * (bf16 ? 1.01 : 1.001) + zeros;
      if (near && sharp) continue;
      if (++wrong == 1) {
        UNSCOPED_INFO(i << ": " << found.values[i] << " for " << q << ", bound " << found.bounds[i]
                        << " for " << bound);
      }
    }
    CHECK(wrong == 0);
    CHECK(finite > 1000);
  }
}

TEST_CASE("updates of every length are judged as one by one", "[replay]") {
  Random random(43);
  const std::vector<Case> all = cases();
  for (int round = 0; round < 60; ++round) {
    const Case& of = all[static_cast<std::size_t>(random.between(0, all.size() - 1))];
    const auto count = static_cast<std::size_t>(random.between(0, 5000));
    CAPTURE(of.name, count);
    const std::vector<DType> dtypes{DType::kFloat32, DType::kBFloat16};
    const Tensors tensors(of, count, dtypes, round % 2 == 0, random);
    const tensor::Box box = tensor::whole({count});
    const double scale = round % 3 == 0 ? 0.5 : 1;
    const auto input = [&](std::size_t c) {
      const Column& column = tensors.columns[c];
      return InputBox{box, {column.bits, column.dtype, c == 1 ? scale : 1}};
    };
    const auto given = [&](std::size_t c) {
      return tensors.has[c] ? std::optional(input(c)) : std::nullopt;
    };
    UpdateRequest request{input(5), input(0), given(1), {}, {}, given(3), given(4), of.step};
    (tensors.is_sgd ? request.momentum_buffer : request.exp_avg) = given(2);
    const auto judged = [&](const Backend& backend) {
      TileStats stats;
      UpdateSums sums;
      request.stats = &stats;
      request.sums = &sums;
      const auto batch = backend.new_batch();
      batch->add(request);
      batch->finish();
      return std::pair(stats, sums);
    };
    const auto [stats, sums] = judged(test::NaiveBackend());
    for (const Kernel* kernel : usable_kernels()) {
      CAPTURE(kernel->isa);
      const auto [found, found_sums] = judged(cpu_backend(kernel->isa));
      CHECK(found.finite == stats.finite);
      CHECK(found.unequal == stats.unequal);
      CHECK(found.sum_d2 == stats.sum_d2);
      CHECK(found.sum_rc == stats.sum_rc);
      CHECK(found.nonfinite_different == stats.nonfinite_different);
      CHECK(found.largest.has_value() == stats.largest.has_value());
      if (found.largest && stats.largest) {
        CHECK(found.largest->at == stats.largest->at);
        CHECK(found.largest->difference == stats.largest->difference);
      }
      CHECK(found_sums.unmoved == sums.unmoved);
      CHECK(found_sums.unjudged == sums.unjudged);
      CHECK(found_sums.sum_bound2 == sums.sum_bound2);
      CHECK(found_sums.worst.has_value() == sums.worst.has_value());
      if (found_sums.worst && sums.worst) {
        CHECK(found_sums.worst->at == sums.worst->at);
        CHECK(found_sums.worst->ratio == sums.worst->ratio);
      }
    }
  }
}

}  // namespace
}  // namespace ttrace::measure::update_kernel_test
