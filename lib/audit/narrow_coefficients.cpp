#include "audit/narrow_coefficients.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "audit/module_values.h"
#include "base/message.h"
#include "localize/causes/trial.h"
#include "tensor/box.h"
#include "tensor/codec.h"
#include "tensor/dtype.h"

namespace ttrace::audit {
namespace {

using trace::Kind;
using trace::TensorEntry;

// How many ε the factor may be off: it is the inverse root of a rounded variance, and is rounded
// itself.
constexpr double kEpsilonsToEachSide = 1;
constexpr std::uint64_t kMostElements = std::uint64_t{1} << 24;

// The elements of one channel of a tensor [rows, channels, ...].
struct Channel {
  std::vector<double> input, recorded, expected;
};

Channel channel_of(const TensorEntry& entry, std::uint64_t number, const std::vector<double>& input,
                   const std::vector<double>& recorded, const std::vector<double>& expected) {
  const std::uint64_t channels = entry.shape[1];
  const std::uint64_t inner = input.size() / (entry.shape[0] * channels);
  Channel channel;
  for (std::uint64_t row = 0; row < entry.shape[0]; ++row) {
    const std::uint64_t first = (row * channels + number) * inner;
    for (std::uint64_t j = first; j < first + inner; ++j) {
      channel.input.push_back(input[j]);
      channel.recorded.push_back(recorded[j]);
      channel.expected.push_back(expected[j]);
    }
  }
  return channel;
}

// The numbers of the type within kEpsilonsToEachSide of `value`.
std::vector<double> neighbours(double value, tensor::DType dtype) {
  std::vector<double> found;
  const double most = kEpsilonsToEachSide * std::abs(value) * tensor::epsilon(dtype);
  for (int quarter = -4; quarter <= 4; ++quarter) {
    found.push_back(tensor::round_to(dtype, value + quarter * most / 4));
  }
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

double mean_of(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

// Whether the expected values are the line α·x + β, up to the errors of their own evaluation.
bool is_line(const Channel& channel, double slope, double mean, double bias) {
  constexpr double kOpen = 1e-4;
  const double largest = std::abs(slope * mean) + std::abs(bias);
  for (std::size_t j = 0; j < channel.input.size(); ++j) {
    const double off = channel.expected[j] - (slope * (channel.input[j] - mean) + bias);
    if (!(std::abs(off) <= kOpen * (largest + std::abs(channel.expected[j])))) return false;
  }
  return true;
}

double squared_error(const Channel& channel, tensor::DType dtype, double alpha, double beta) {
  double square = 0;
  for (std::size_t j = 0; j < channel.input.size(); ++j) {
    const double made = tensor::round_to(dtype, alpha * channel.input[j] + beta);
    square += (made - channel.recorded[j]) * (made - channel.recorded[j]);
  }
  return square;
}

// Returns the least Σ (recorded - (α·x + β))² over α and means μ of the type, with β = b - μ·α
// unrounded or rounded to the type; infinite if the expected values are not a line of the input. A
// channel whose input is one value fits no line: its whole error is left.
double left_of(const Channel& channel, tensor::DType dtype) {
  constexpr double kNothing = std::numeric_limits<double>::infinity();
  const auto [low, high] = std::minmax_element(channel.input.begin(), channel.input.end());
  if (!(*high > *low)) {
    const double all = distance(channel.recorded, channel.expected);
    return all * all;
  }
  const auto expected_at = [&](auto place) {
    return channel.expected[static_cast<std::size_t>(place - channel.input.begin())];
  };
  const double slope = (expected_at(high) - expected_at(low)) / (*high - *low);
  const double mean = mean_of(channel.input);
  const double bias = mean_of(channel.expected);
  if (!is_line(channel, slope, mean, bias)) return kNothing;
  double least = kNothing;
  for (const double alpha : neighbours(slope, dtype)) {
    for (const double middle : neighbours(mean, dtype)) {
      const double beta = bias - middle * alpha;
      least = std::min(least, squared_error(channel, dtype, alpha, beta));
      const double rounded = tensor::round_to(dtype, beta);
      least = std::min(least, squared_error(channel, dtype, alpha, rounded));
    }
  }
  return least;
}

}  // namespace

std::optional<answer::Cause> find_narrow_coefficients(const trace::Source& run,
                                                      const TensorEntry& entry,
                                                      const measure::TensorRef& expected) {
  const bool narrow =
      entry.dtype == tensor::DType::kBFloat16 || entry.dtype == tensor::DType::kFloat16;
  if (entry.key.kind != Kind::kOutput || !narrow || entry.shape.size() < 2) return std::nullopt;
  const std::uint64_t elements = tensor::element_count(entry.shape).value_or(0);
  if (elements == 0 || elements > kMostElements) return std::nullopt;
  const TensorEntry* input = only_value_of(run.manifest(), entry.key, Kind::kInput, entry.key.name);
  if (input == nullptr || input->shape != entry.shape || input->dtype != entry.dtype) {
    return std::nullopt;
  }
  const std::vector<double> inputs = values_of({&run, input});
  const std::vector<double> recorded = values_of({&run, &entry});
  const std::vector<double> right = values_of(expected);
  const double error = distance(recorded, right);
  double square = 0;
  for (std::uint64_t number = 0; number < entry.shape[1]; ++number) {
    square += left_of(channel_of(entry, number, inputs, recorded, right), entry.dtype);
    if (!(std::sqrt(square) <= localize::kMostLeft * error)) return std::nullopt;
  }
  const double left = std::sqrt(square);
  const std::string type(dtype_short_name(entry.dtype));
  return answer::cause_of(
      "narrow_coefficients", "",
      {left == 0 ? "the factor and the mean of every channel, rounded to {type}, make the recorded "
                   "value to the bit"
                 : "the factor and the mean of every channel, rounded to {type}, leave {percent} % "
                   "of the error",
       {{"type", type}, {"percent", 100 * left / error}}},
      left == 0 ? 0 : left / distance(right, std::vector<double>(right.size(), 0)));
}

}  // namespace ttrace::audit
