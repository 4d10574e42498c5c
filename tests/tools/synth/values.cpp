#include "tools/synth/values.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "base/functions.h"
#include "base/text.h"
#include "tensor/codec.h"
#include "tools/synth/random.h"

namespace ttrace::synth {
namespace {

constexpr std::array kUpdatedFrom{std::pair(trace::Kind::kParam, ""),
                                  std::pair(trace::Kind::kMainGrad, ""),
                                  std::pair(trace::Kind::kOptimizerState, ".exp_avg"),
                                  std::pair(trace::Kind::kOptimizerState, ".exp_avg_sq")};

// Uniform in [-2^k, 2^k) with k = digits - 3, at most 21.
std::int64_t share(std::uint32_t word, int digits) {
  const auto number = static_cast<std::int64_t>(static_cast<std::int32_t>(word));
  return number >> (31 - std::min(digits - 3, 21));
}

std::int64_t floor_div(std::int64_t a, std::int64_t b) {
  return a / b - ((a % b != 0 && (a < 0) != (b < 0)) ? 1 : 0);
}

}  // namespace

Values::Values(const trace::Manifest& manifest, const trace::TensorEntry& entry,
               const Settings& settings)
    : shape_(entry.shape),
      dtype_(entry.dtype),
      scale_(entry.scale),
      path_(dataset_path(entry.key)),
      settings_(settings) {
  if (manifest.optimizer.empty()) return;
  optimizer_ = &manifest.optimizer.front();
  std_dev_ = entry.key.kind == trace::Kind::kParam ? 0.02 : 1e-3;
  squared_ = entry.key.name.ends_with(".exp_avg_sq");
  // Every run of a step begins with the same parameters and states.
  if (entry.key.kind != trace::Kind::kMainGrad) settings_.noise = 0;
  if (entry.key.kind != trace::Kind::kParamAfterStep) return;
  for (const auto& [kind, state] : kUpdatedFrom) {
    trace::TensorEntry from = entry;
    from.key.kind = kind;
    from.key.name += state;
    updated_from_.emplace_back(manifest, from, settings);
  }
}

std::vector<std::uint32_t> Values::words(std::string_view purpose, std::uint64_t seed,
                                         const tensor::Box& box) const {
  std::vector<std::uint32_t> words(tensor::volume(box));
  fill_random_words(Stream::of_synthetic(seed, purpose, path_), shape_, box, words);
  return words;
}

// AdamW in single precision, as torch computes it.
std::vector<double> Values::updated(const tensor::Box& box) const {
  std::array<std::vector<double>, kUpdatedFrom.size()> from;
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = updated_from_[i].numbers(box);
  const auto number = [&](const char* name) { return optimizer_->numbers.at(name); };
  const double beta1 = optimizer_->betas.at(0);
  const double beta2 = optimizer_->betas.at(1);
  const double root2 = std::sqrt(1 - base::power(beta2, number("updates")));
  const auto b1 = static_cast<float>(beta1);
  const auto b2 = static_cast<float>(beta2);
  const auto added1 = static_cast<float>(1 - beta1);
  const auto added2 = static_cast<float>(1 - beta2);
  const auto shrink = static_cast<float>(1 - number("lr") * number("weight_decay"));
  const auto step = static_cast<float>(number("lr") / (1 - base::power(beta1, number("updates"))));
  const auto over_root2 = static_cast<float>(1 / root2);
  const auto eps = static_cast<float>(number("eps"));
  std::vector<double> out(tensor::volume(box));
  for (std::size_t i = 0; i < out.size(); ++i) {
    const auto stored = [&](std::size_t which) {
      return static_cast<float>(tensor::round_to(dtype_, from[which][i]));
    };
    const float g = stored(1);
    const float m = b1 * stored(2) + added1 * g;
    const float v = b2 * stored(3) + added2 * (g * g);
    out[i] = stored(0) * shrink - step * (m / (std::sqrt(v) * over_root2 + eps));
  }
  return out;
}

std::vector<double> Values::numbers(const tensor::Box& box) const {
  if (!updated_from_.empty()) return updated(box);
  std::vector<double> out;
  out.reserve(tensor::volume(box));
  for (const std::uint32_t word : words("synth", settings_.seed, box)) {
    const double value{normal(word, 0, std_dev_)};
    out.push_back(squared_ ? value * value : value);
  }
  if (settings_.noise == 0) return out;
  const double size = settings_.noise * tensor::epsilon(dtype_);
  const std::vector<std::uint32_t> noise = words("synth_noise", settings_.noise_seed, box);
  for (std::size_t i = 0; i < out.size(); ++i) out[i] *= 1 + size * double{uniform(noise[i])};
  return out;
}

// A stored value is an integer multiple m of the spacing of its dtype, and so is every term, so
// that sums are exact: term t of T over S ranks = ⌊(m + t mod S) / S⌋ + r(t) - r(t+1 mod T), with r
// random and small enough for every term to be a number of the dtype.
void Values::split(const tensor::Box& box, const Term& term, std::vector<double>& values) const {
  const auto shares = [&](std::uint64_t number) {
    return words(base::concat("synth_part ", number), settings_.seed, box);
  };
  const std::vector<std::uint32_t> here = shares(term.number);
  const std::vector<std::uint32_t> next = shares((term.number + 1) % term.count);
  const tensor::FloatFormat format = tensor::float_format(dtype_);
  const auto summed = static_cast<std::int64_t>(term.summed);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double whole = tensor::round_to(dtype_, values[i]);
    values[i] = whole;
    if (!std::isfinite(whole)) continue;
    const int exponent =
        whole == 0 ? format.smallest : std::max(std::ilogb(whole), format.smallest);
    const int unit = exponent - (format.digits - 1);
    const auto multiple = static_cast<std::int64_t>(std::ldexp(whole, -unit)) +
                          static_cast<std::int64_t>(term.number % term.summed);
    const std::int64_t part =
        floor_div(multiple, summed) + share(here[i], format.digits) - share(next[i], format.digits);
    values[i] = std::ldexp(static_cast<double>(part), unit);
  }
}

void Values::store(const tensor::Box& box, const Term& term, std::span<std::byte> out) const {
  if (!tensor::is_floating(dtype_)) {
    const std::uint64_t numbers = dtype_ == tensor::DType::kBool ? 2 : 100;
    std::vector<std::int64_t> integers;
    for (const std::uint32_t word : words("synth", settings_.seed, box)) {
      integers.push_back(static_cast<std::int64_t>((word * numbers) >> 32));
    }
    return tensor::encode_integers(dtype_, integers, out);
  }
  std::vector<double> values = numbers(box);
  for (double& value : values) value /= scale_;
  if (term.summed > 1) split(box, term, values);
  tensor::encode_floats(dtype_, values, out);
}

}  // namespace ttrace::synth
