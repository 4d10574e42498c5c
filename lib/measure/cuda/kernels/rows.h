// Sums over rows, per column, one row after the other (RowsRequest): a thread per row finds the
// moments of its row, then a thread per column and sum goes down the rows.
#pragma once

#include <cmath>
#include <cstdint>

#include "measure/cuda/kernels/decode.h"
#include "measure/cuda/kernels/execution.h"
#include "measure/cuda/kernels/work.h"

namespace ttrace::measure::cuda {

inline constexpr std::uint32_t kMoments = 3;  // mean, variance, mean square

// Visits row `row` of the input in order, in blocks of one warp that read 32 rows together: each
// lane reads a column of 32 x 32 elements, so that neighbouring lanes read neighbouring elements.
template <typename Execution, typename Visit>
TTRACE_DEVICE void for_each_of_row(Execution& execution, const RowsLaunch& launch,
                                   std::uint64_t first_row, Visit visit) {
  constexpr std::uint32_t kStride = kWarp + 1;  // no two lanes in one bank
  const auto square = execution.template shared<double, kWarp * kStride>();
  const std::uint32_t lane = execution.thread();
  for (std::uint64_t column = 0; column < launch.length; column += kWarp) {
    const std::uint64_t left = launch.length - column;
    const std::uint32_t width = static_cast<std::uint32_t>(left < kWarp ? left : kWarp);
    for (std::uint32_t row = 0; row < kWarp && first_row + row < launch.rows; ++row) {
      if (lane >= width) continue;
      const std::uint64_t at = (first_row + row) * launch.length + column + lane;
      square.store(row * kStride + lane, number_at(launch.input, at));
    }
    execution.sync();
    if (first_row + lane < launch.rows) {
      for (std::uint32_t i = 0; i < width; ++i) visit(square.load(lane * kStride + i));
    }
    execution.sync();
  }
}

// In blocks of one warp, each with 32 rows.
template <typename Execution>
TTRACE_DEVICE void row_moments(Execution& execution, const RowsLaunch& launch) {
  const std::uint64_t first_row = execution.block() * kWarp;
  const double n = static_cast<double>(launch.length);
  double mean = 0;
  for_each_of_row(execution, launch, first_row, [&](double x) { mean = mean + x / n; });
  double variance = 0;
  double mean_square = 0;
  for_each_of_row(execution, launch, first_row, [&](double x) {
    variance = variance + (x - mean) * (x - mean) / n;
    mean_square = mean_square + x * x / n;
  });
  const std::uint64_t row = first_row + execution.thread();
  if (row >= launch.rows) return;
  launch.moments[kMoments * row] = mean;
  launch.moments[kMoments * row + 1] = variance;
  launch.moments[kMoments * row + 2] = mean_square;
}

// One thread per sum and column.
template <typename Execution>
TTRACE_DEVICE void sum_rows(Execution& execution, const RowsLaunch& launch) {
  const std::uint64_t thread = execution.block() * execution.block_threads() + execution.thread();
  const std::uint64_t which = thread / launch.length;
  const std::uint64_t column = thread % launch.length;
  const std::uint32_t norms = launch.input.bits == nullptr ? 0 : launch.norms;
  if (which >= 1 + 2 * static_cast<std::uint64_t>(norms)) return;
  const bool is_layer = which <= norms;
  const double epsilon = which == 0 ? 0 : launch.epsilons[(which - 1) % norms];
  double* const exact_at = launch.sums + 2 * which * launch.length + column;
  double* const stepwise_at = exact_at + launch.length;
  double exact = *exact_at;
  double stepwise = *stepwise_at;
  for (std::uint64_t row = 0; row < launch.rows; ++row) {
    const std::uint64_t at = row * launch.length + column;
    double term = number_at(launch.gradient, at);
    if (which > 0) {
      const double x = number_at(launch.input, at);
      const double* const moments = launch.moments + kMoments * row;
      if (is_layer) {
        term = term * (x - moments[0]) * (1 / sqrt(moments[1] + epsilon));
      } else {
        term = term * x * (1 / sqrt(moments[2] + epsilon));
      }
    }
    exact = exact + term;
    stepwise = round_to_type(launch.precision, stepwise + term);
  }
  *exact_at = exact;
  *stepwise_at = stepwise;
}

}  // namespace ttrace::measure::cuda
