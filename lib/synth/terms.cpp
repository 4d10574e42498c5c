#include "synth/terms.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "layout/axis_view.h"
#include "synth/fill.h"
#include "tensor/codec.h"

namespace ttrace::synth {
namespace {

using tensor::DType;

struct Precision {
  int digits = 0;    // of the significand
  int smallest = 0;  // exponent of the smallest normal number
};

Precision precision_of(DType dtype) {
  switch (dtype) {
    case DType::kFloat64:
      return {53, -1022};
    case DType::kFloat32:
      return {24, -126};
    case DType::kFloat16:
      return {11, -14};
    case DType::kBFloat16:
      return {8, -126};
    case DType::kFloat8E4M3:
      return {4, -6};
    case DType::kFloat8E5M2:
      return {3, -14};
    default:
      throw base::internal_error("terms of ", tensor::dtype_name(dtype));
  }
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

double Terms::part(double whole, std::int64_t here, std::int64_t next) const {
  if (!std::isfinite(whole)) return whole;
  const Precision precision = precision_of(dtype_);
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
  fill_words(here_, shape_, box, here);
  fill_words(next_, shape_, box, next);
  const int digits = precision_of(dtype_).digits;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (maximum_ && next[i] % count_ == number_) continue;
    values[i] = part(values[i], share(here[i], digits), share(next[i], digits));
  }
}

}  // namespace ttrace::synth
