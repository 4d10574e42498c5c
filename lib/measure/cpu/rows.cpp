#include <cmath>
#include <vector>

#include "measure/cpu/requests.h"
#include "measure/cpu/tiles.h"
#include "tensor/codec.h"

namespace ttrace::measure {
namespace {

struct RowMoments {
  double mean = 0;
  double variance = 0;
  double mean_square = 0;
};

RowMoments moments_of(std::span<const double> x) {
  const auto n = static_cast<double>(x.size());
  RowMoments row;
  for (const double v : x) row.mean += v / n;
  for (const double v : x) {
    row.variance += (v - row.mean) * (v - row.mean) / n;
    row.mean_square += v * v / n;
  }
  return row;
}

void add_term(tensor::DType precision, RowSums& sums, std::size_t j, double term) {
  sums.exact[j] += term;
  sums.stepwise[j] = tensor::round_to(precision, sums.stepwise[j] + term);
}

}  // namespace

void compute(const RowsRequest& request) {
  const std::size_t length = request.length;
  const std::size_t norms = request.epsilons.size();
  RowSums* const layer_sums = request.sums + 1;
  RowSums* const rms_sums = request.sums + 1 + norms;
  std::vector<double> gradient_row(length);
  std::vector<double> input_row(length);
  const std::uint64_t count = tensor::volume(request.gradient.box);
  for (std::uint64_t at = 0; at < count; at += length) {
    const std::span<const double> g = numbers(request.gradient.values, at, length, gradient_row);
    for (std::size_t j = 0; j < length; ++j) add_term(request.precision, request.sums[0], j, g[j]);
    if (!request.input) continue;
    const std::span<const double> x = numbers(request.input->values, at, length, input_row);
    const RowMoments row = moments_of(x);
    for (std::size_t k = 0; k < norms; ++k) {
      const double layer = 1 / std::sqrt(row.variance + request.epsilons[k]);
      const double rms = 1 / std::sqrt(row.mean_square + request.epsilons[k]);
      for (std::size_t j = 0; j < length; ++j) {
        add_term(request.precision, layer_sums[k], j, g[j] * (x[j] - row.mean) * layer);
        add_term(request.precision, rms_sums[k], j, g[j] * x[j] * rms);
      }
    }
  }
}

}  // namespace ttrace::measure
