// Products of matrices: a block of threads computes kProductRows × kProductColumns elements of the
// result, whose operands it reads together, kProductDepth steps of k at a time. A thread owns its
// elements and adds the steps in ascending order, rounded as the CPU rounds.
#pragma once

#include <cstdint>

#include "measure/cuda/kernels/execution.h"
#include "measure/cuda/kernels/lanes.h"
#include "measure/cuda/kernels/work.h"

namespace ttrace::measure::cuda {

inline constexpr std::uint32_t kProductRows = 128;
inline constexpr std::uint32_t kProductColumns = 64;
inline constexpr std::uint32_t kProductDepth = 16;
inline constexpr std::uint32_t kProductThreads = 256;

constexpr std::uint64_t product_blocks(const ProductLaunch& launch) {
  return (launch.m + kProductRows - 1) / kProductRows *
         ((launch.n + kProductColumns - 1) / kProductColumns);
}

// A part of an operand in shared memory, by step of k and line: a row of a, a column of b. The
// odd distance of the steps keeps threads of a warp out of each other's banks.
template <std::uint32_t kLines, typename Shared>
class SharedOperand {
 public:
  static constexpr std::uint32_t kStride = kLines + 1;
  TTRACE_DEVICE explicit SharedOperand(const Shared& values) : values_(values) {}

  // Copies the steps [first_step, first_step + kProductDepth) of the lines from `first_line` on; 0
  // where there are none. Neighbouring threads read along the memory.
  TTRACE_DEVICE void fill(std::uint32_t thread, const DeviceOperand& operand, std::uint64_t lines,
                          std::uint64_t steps, std::uint64_t first_line,
                          std::uint64_t first_step) const {
    for (std::uint32_t i = thread; i < kLines * kProductDepth; i += kProductThreads) {
      const bool along_steps = operand.step_stride == 1;
      const std::uint32_t line = along_steps ? i / kProductDepth : i % kLines;
      const std::uint32_t step = along_steps ? i % kProductDepth : i / kLines;
      const bool exists = first_line + line < lines && first_step + step < steps;
      const double value = exists ? operand.values[(first_line + line) * operand.line_stride +
                                                   (first_step + step) * operand.step_stride]
                                  : 0;
      values_.store(step * kStride + line, value);
    }
  }

  TTRACE_DEVICE double operator()(std::uint32_t step, std::uint32_t line) const {
    return values_.load(step * kStride + line);
  }

 private:
  Shared values_;
};

// kExactProducts: every product of two elements is exact, and may be fused with its addition.
template <bool kExactProducts, typename Execution>
TTRACE_DEVICE void multiply_blocks(Execution& execution, const ProductLaunch& launch) {
  constexpr std::uint32_t kAcross = 16;  // threads along a row of the block
  constexpr std::uint32_t kRows = kProductRows / (kProductThreads / kAcross);  // of a thread
  constexpr std::uint32_t kColumns = kProductColumns / kAcross;
  const auto left_values = execution.template shared<double, kProductDepth*(kProductRows + 1)>();
  const auto right_values =
      execution.template shared<double, kProductDepth*(kProductColumns + 1)>();
  const SharedOperand<kProductRows, decltype(left_values)> left(left_values);
  const SharedOperand<kProductColumns, decltype(right_values)> right(right_values);

  const std::uint64_t across = (launch.n + kProductColumns - 1) / kProductColumns;
  const std::uint64_t first_row = execution.block() / across * kProductRows;
  const std::uint64_t first_column = execution.block() % across * kProductColumns;
  const std::uint32_t thread = execution.thread();
  const std::uint32_t row = thread / kAcross * kRows;  // rows row, row + 1, ...
  const std::uint32_t column = thread % kAcross;       // columns column, column + kAcross, ...
  const auto at = [&](std::uint32_t i, std::uint32_t j) {
    return (first_row + row + i) * launch.n + first_column + column + j * kAcross;
  };
  const auto exists = [&](std::uint32_t i, std::uint32_t j) {
    return first_row + row + i < launch.m && first_column + column + j * kAcross < launch.n;
  };

  double sums[kRows][kColumns];
  TTRACE_UNROLL
  for (std::uint32_t i = 0; i < kRows; ++i) {
    TTRACE_UNROLL
    for (std::uint32_t j = 0; j < kColumns; ++j) {
      sums[i][j] = launch.add && exists(i, j) ? launch.c[at(i, j)] : 0;
    }
  }
  const auto add_step = [&](std::uint32_t step) {
    double of_left[kRows];
    double of_right[kColumns];
    TTRACE_UNROLL
    for (std::uint32_t i = 0; i < kRows; ++i) of_left[i] = left(step, row + i);
    TTRACE_UNROLL
    for (std::uint32_t j = 0; j < kColumns; ++j) of_right[j] = right(step, column + j * kAcross);
    TTRACE_UNROLL
    for (std::uint32_t i = 0; i < kRows; ++i) {
      TTRACE_UNROLL
      for (std::uint32_t j = 0; j < kColumns; ++j) {
        if constexpr (kExactProducts) {
          sums[i][j] = plus_exact_product(sums[i][j], of_left[i], of_right[j]);
        } else {
          sums[i][j] = sums[i][j] + of_left[i] * of_right[j];
        }
      }
    }
  };
  for (std::uint64_t first = 0; first < launch.k; first += kProductDepth) {
    left.fill(thread, launch.a, launch.m, launch.k, first_row, first);
    right.fill(thread, launch.b, launch.n, launch.k, first_column, first);
    execution.sync();
    const std::uint64_t steps = launch.k - first;
    if (steps >= kProductDepth) {
      TTRACE_UNROLL_4
      for (std::uint32_t step = 0; step < kProductDepth; ++step) add_step(step);
    } else {
      for (std::uint32_t step = 0; step < steps; ++step) add_step(step);
    }
    execution.sync();
  }
  TTRACE_UNROLL
  for (std::uint32_t i = 0; i < kRows; ++i) {
    TTRACE_UNROLL
    for (std::uint32_t j = 0; j < kColumns; ++j) {
      if (exists(i, j)) launch.c[at(i, j)] = sums[i][j];
    }
  }
}

}  // namespace ttrace::measure::cuda
