#include "measure/row_sums.h"

#include <cmath>

#include "measure/cpu/cpu_backend.h"
#include "support/catch.h"
#include "support/memory_trace.h"

namespace ttrace::measure {
namespace {

using tensor::DType;
using test::make_entry;
using test::MemoryTrace;

// 300 rows of 3 numbers.
struct Rows {
  Rows() : gradient(), input() {
    for (int i = 0; i < 900; ++i) {
      gradient.push_back(0.25 + std::sin(i));
      input.push_back(2 + std::cos(3 * i));
    }
    trace.put(make_entry("g", {100, 3, 3}), gradient);
    trace.put(make_entry("x", {100, 3, 3}), input);
  }

  std::vector<RowSums> sums(bool with_input, DType precision = DType::kFloat64) const {
    const TensorRef g(&trace, &trace.manifest().tensors[0]);
    const TensorRef x(&trace, &trace.manifest().tensors[1]);
    return sum_rows(cpu_backend(), g, with_input ? &x : nullptr, precision);
  }

  // Of g·(x - shift)/√(spread + ε), where `layer` tells how a row is normalised.
  std::vector<double> normalised(bool layer, double epsilon) const {
    std::vector<double> sum(3, 0);
    for (std::size_t at = 0; at < 900; at += 3) {
      const double* x = &input[at];
      const double mean = layer ? (x[0] + x[1] + x[2]) / 3 : 0;
      double spread = 0;
      for (int j = 0; j < 3; ++j) spread += (x[j] - mean) * (x[j] - mean) / 3;
      for (std::size_t j = 0; j < 3; ++j) {
        sum[j] += gradient[at + j] * (x[j] - mean) / std::sqrt(spread + epsilon);
      }
    }
    return sum;
  }

  std::vector<double> gradient;
  std::vector<double> input;
  MemoryTrace trace;
};

// `trace` holds f32.
void check_near(const std::vector<double>& a, const std::vector<double>& b) {
  REQUIRE(a.size() == b.size());
  for (std::size_t j = 0; j < a.size(); ++j) CHECK(a[j] == Catch::Approx(b[j]).margin(1e-4));
}

TEST_CASE("a bias adds up its rows") {
  const Rows rows;
  const auto sums = rows.sums(false);
  REQUIRE(sums.size() == 1);
  std::vector<double> expected(3, 0);
  for (std::size_t i = 0; i < 900; ++i) expected[i % 3] += rows.gradient[i];
  check_near(sums[0].exact, expected);
  check_near(sums[0].stepwise, expected);
}

TEST_CASE("norms add up their normalised rows") {
  const Rows rows;
  const auto sums = rows.sums(true);
  REQUIRE(sums.size() == 9);
  check_near(sums[1].exact, rows.normalised(true, 1e-5));
  check_near(sums[2].exact, rows.normalised(true, 1e-6));
  check_near(sums[5].exact, rows.normalised(false, 1e-5));
}

TEST_CASE("an accumulator of a narrow type rounds after every term") {
  const Rows rows;
  const auto sums = rows.sums(false, DType::kBFloat16);
  CHECK(std::abs(sums[0].stepwise[0] - sums[0].exact[0]) > 0.1);
  const auto found = accumulated_rounding(sums[0].stepwise, sums);
  REQUIRE(found);
  CHECK((*found)[0] == sums[0].stepwise[0] - sums[0].exact[0]);
}

TEST_CASE("what is farther off than such an accumulator was made in another way") {
  const std::vector<RowSums> sums{{{1, 2}, {1.125, 2}}};
  CHECK(accumulated_rounding({1.25, 2}, sums));
  CHECK_FALSE(accumulated_rounding({1.26, 2}, sums));
  CHECK_FALSE(accumulated_rounding({std::nan(""), 2}, sums));
  CHECK_FALSE(accumulated_rounding({1, 2}, {}));
  // Where rounding adds nothing, only the sum itself is such a sum.
  CHECK(accumulated_rounding({1, 2}, {{{1, 2}, {1, 2}}}) == std::vector<double>{0, 0});
}

}  // namespace
}  // namespace ttrace::measure
