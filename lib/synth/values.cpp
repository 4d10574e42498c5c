#include "synth/values.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/error.h"
#include "base/functions.h"
#include "layout/mesh.h"
#include "synth/fault.h"
#include "tensor/codec.h"

namespace ttrace::synth {
namespace {

constexpr std::uint64_t kIntegers = 100;

// The key whose values a stale tensor has: the previous micro-batch or step, else the next step.
trace::TensorKey stale_key(trace::TensorKey key) {
  if (key.microbatch && *key.microbatch > 0) {
    --*key.microbatch;
  } else if (key.step > 0) {
    --key.step;
  } else {
    ++key.step;
  }
  return key;
}

std::string path_of(const trace::TensorEntry& entry, const TensorFaults& faults) {
  return dataset_path(faults.stale ? stale_key(entry.key) : entry.key);
}

// Sets the elements of row `row` to 0 in `out`, which holds the values of `box`.
template <typename Value>
void zero_row(const tensor::Box& box, std::uint64_t row, std::span<Value> out) {
  if (row < box.origin[0] || row - box.origin[0] >= box.extent[0]) return;
  const std::size_t width = out.size() / box.extent[0];
  const auto first = out.begin() + static_cast<std::ptrdiff_t>((row - box.origin[0]) * width);
  std::fill(first, first + static_cast<std::ptrdiff_t>(width), Value{0});
}

tensor::Shape middle_of(const tensor::Shape& shape) {
  tensor::Shape middle = shape;
  for (std::uint64_t& extent : middle) extent /= 2;
  return middle;
}

// Uniform in [-2^k, 2^k) with k = digits - 3, at most 21.
std::int64_t share(std::uint32_t word, int digits) {
  const auto number = static_cast<std::int64_t>(static_cast<std::int32_t>(word));
  return number >> (31 - std::min(digits - 3, 21));
}

std::int64_t floor_div(std::int64_t a, std::int64_t b) {
  return a / b - ((a % b != 0 && (a < 0) != (b < 0)) ? 1 : 0);
}

}  // namespace

IndexRows::IndexRows(std::uint64_t seed, std::string_view path, std::uint64_t count)
    : count_(std::max<std::uint64_t>(count, 1)) {
  std::array<std::uint32_t, 2> words{};
  Stream::of_synthetic(seed, "synth_index", path).words(0, words);
  factor_ = std::max<std::uint64_t>(words[0] % count_, 1);
  while (std::gcd(factor_, count_) != 1) ++factor_;
  offset_ = words[1] % count_;
}

namespace {

constexpr std::array kUpdatedFrom{std::pair(trace::Kind::kParam, ""),
                                  std::pair(trace::Kind::kMainGrad, ""),
                                  std::pair(trace::Kind::kOptimizerState, ".exp_avg"),
                                  std::pair(trace::Kind::kOptimizerState, ".exp_avg_sq")};

// The group whose tensors have these names and this kind.
const Group& group_of(const Recipe& recipe, const std::string& name, trace::Kind kind) {
  for (const Group& group : recipe.groups) {
    if (group.entry.key.name == name && group.entry.key.kind == kind) return group;
  }
  throw base::internal_error("no tensors ", name, " to update from");
}

}  // namespace

Values::Values(const Recipe& recipe, const Group& group, const trace::TensorEntry& entry,
               const SyntheticNoise& noise, TensorFaults faults)
    : shape_(entry.shape),
      dtype_(entry.dtype),
      mean_(group.mean),
      std_dev_(group.std_dev),
      noise_(noise.size * (noise.in_epsilons ? tensor::epsilon(entry.dtype) : 1)),
      values_(Stream::of_synthetic(recipe.seed, "synth", path_of(entry, faults))),
      noise_stream_(Stream::of_synthetic(noise.seed, "synth_noise", path_of(entry, faults))),
      faults_(std::move(faults)) {
  if (entry.key.kind == trace::Kind::kIndex) {
    index_.emplace(recipe.seed, dataset_path(entry.key), shape_.at(0));
  }
  if (!recipe.optimizer) return;
  optimizer_ = *recipe.optimizer;
  // Every run of a step begins with the same parameters and states.
  if (entry.key.kind != trace::Kind::kMainGrad) noise_ = 0;
  squared_ =
      entry.key.kind == trace::Kind::kOptimizerState && entry.key.name.ends_with(".exp_avg_sq");
  if (entry.key.kind != trace::Kind::kParamAfterStep) return;
  for (const auto& [kind, state] : kUpdatedFrom) {
    trace::TensorEntry from = entry;
    from.key.kind = kind;
    from.key.name += state;
    updated_from_.emplace_back(recipe, group_of(recipe, group.entry.key.name + state, kind), from,
                               noise, TensorFaults{});
  }
}

void Values::fill_updated(const tensor::Box& box, std::span<double> out) const {
  std::array<std::vector<double>, kUpdatedFrom.size()> from;
  for (std::size_t i = 0; i < from.size(); ++i) {
    from[i].resize(out.size());
    updated_from_[i].fill(box, from[i]);
  }
  const auto number = [&](const char* name) { return optimizer_.numbers.at(name); };
  const double updates = number("updates");
  const double correction1 = 1 - base::power(optimizer_.betas[0], updates);
  const double root2 = std::sqrt(1 - base::power(optimizer_.betas[1], updates));
  const auto b1 = static_cast<float>(optimizer_.betas[0]);
  const auto b2 = static_cast<float>(optimizer_.betas[1]);
  const auto added1 = static_cast<float>(1 - optimizer_.betas[0]);
  const auto added2 = static_cast<float>(1 - optimizer_.betas[1]);
  const auto shrink = static_cast<float>(1 - number("lr") * number("weight_decay"));
  const auto step = static_cast<float>(number("lr") / correction1);
  const auto over_root2 = static_cast<float>(1 / root2);
  const auto eps = static_cast<float>(number("eps"));
  for (std::size_t i = 0; i < out.size(); ++i) {
    const auto stored = [&](std::size_t which) {
      return static_cast<float>(tensor::round_to(dtype_, from[which][i]));
    };
    const float g = stored(1);
    const float m = b1 * stored(2) + added1 * g;
    const float v = b2 * stored(3) + added2 * (g * g);
    out[i] = stored(0) * shrink - step * (m / (std::sqrt(v) * over_root2 + eps));
  }
}

void Values::fill(const tensor::Box& box, std::span<double> out) const {
  if (!updated_from_.empty()) {
    fill_updated(box, out);
    return add_faults(box, out);
  }
  thread_local std::vector<std::uint32_t> words;
  words.resize(out.size());
  fill_random_words(values_, shape_, box, words);
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i] = static_cast<double>(normal(words[i], mean_, std_dev_));
  }
  if (squared_) {
    for (double& value : out) value *= value;
  }
  if (noise_ != 0) add_noise(box, out);
  add_faults(box, out);
}

void Values::add_noise(const tensor::Box& box, std::span<double> out) const {
  thread_local std::vector<std::uint32_t> words;
  words.resize(out.size());
  fill_random_words(noise_stream_, shape_, box, words);
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i] *= 1 + noise_ * static_cast<double>(uniform(words[i]));
  }
}

void Values::add_faults(const tensor::Box& box, std::span<double> out) const {
  for (const std::uint64_t row : faults_.zeroed_rows) zero_row(box, row, out);
  if (faults_.factor != 1) {
    for (double& value : out) value *= faults_.factor;
  }
  if (faults_.rounded) {
    for (double& value : out) value = tensor::round_to(tensor::DType::kBFloat16, value);
  }
  if (!faults_.nan) return;
  const tensor::Box middle{middle_of(shape_), tensor::Shape(shape_.size(), 1)};
  if (!tensor::intersect(middle, box)) return;
  out[tensor::position(box.extent, tensor::relative_to(middle, box.origin).origin)] =
      std::numeric_limits<double>::quiet_NaN();
}

void Values::fill_integers(const tensor::Box& box, std::span<std::int64_t> out) const {
  if (index_) {
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = index_->at(box.origin[0] + i);
    return;
  }
  thread_local std::vector<std::uint32_t> words;
  words.resize(out.size());
  fill_random_words(values_, shape_, box, words);
  const std::uint64_t numbers = dtype_ == tensor::DType::kBool ? 2 : kIntegers;
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i] = static_cast<std::int64_t>((words[i] * numbers) >> 32);
  }
  for (const std::uint64_t row : faults_.zeroed_rows) zero_row(box, row, out);
}

Terms::Terms(std::uint64_t seed, const trace::TensorEntry& entry, const trace::Mesh& mesh,
             const std::vector<std::uint64_t>& coordinates, const std::string& path)
    : shape_(entry.shape), dtype_(entry.dtype) {
  const std::vector<layout::AxisView> views = layout::axis_views(entry, mesh);
  for (std::size_t a = 0; a < views.size(); ++a) {
    const auto* partial = std::get_if<trace::Partial>(views[a].placement);
    if (partial == nullptr) continue;
    const auto& held = views[a].held;
    const auto at = std::lower_bound(held.begin(), held.end(), coordinates[a]) - held.begin();
    count_ *= held.size();
    number_ = number_ * held.size() + static_cast<std::uint64_t>(at);
    if (partial->reduction == trace::Reduction::kSum) summed_ *= held.size();
    maximum_ = maximum_ || partial->reduction == trace::Reduction::kMax;
  }
  const auto stream = [&](std::uint64_t term) {
    return Stream::of_synthetic(seed, base::concat("synth_part ", term), path);
  };
  here_ = stream(number_);
  next_ = maximum_ ? stream(count_) : stream((number_ + 1) % count_);
}

double Terms::term(double whole, std::int64_t here, std::int64_t next) const {
  if (!std::isfinite(whole)) return whole;
  const tensor::FloatFormat precision = tensor::float_format(dtype_);
  const int exponent =
      whole == 0 ? precision.smallest : std::max(std::ilogb(whole), precision.smallest);
  const int unit = exponent - (precision.digits - 1);
  const auto multiple = static_cast<std::int64_t>(std::ldexp(whole, -unit));
  if (maximum_) {
    const double lower = std::ldexp(static_cast<double>(multiple - std::abs(here)), unit);
    const double rounded = tensor::round_to(dtype_, lower);
    return std::isfinite(rounded) ? rounded : whole;
  }
  const auto summed = static_cast<std::int64_t>(summed_);
  std::int64_t term = floor_div(multiple + static_cast<std::int64_t>(number_ % summed_), summed);
  const std::int64_t most = std::int64_t{3} << (precision.digits - 2);
  if (summed_ > 1 || std::abs(multiple) <= most) term += here - next;
  return std::ldexp(static_cast<double>(term), unit);
}

void Terms::split(const tensor::Box& box, std::span<double> values) const {
  thread_local std::vector<std::uint32_t> here;
  thread_local std::vector<std::uint32_t> next;
  here.resize(values.size());
  next.resize(values.size());
  fill_random_words(here_, shape_, box, here);
  fill_random_words(next_, shape_, box, next);
  const int digits = tensor::float_format(dtype_).digits;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (maximum_ && next[i] % count_ == number_) continue;
    values[i] = term(values[i], share(here[i], digits), share(next[i], digits));
  }
}

}  // namespace ttrace::synth
