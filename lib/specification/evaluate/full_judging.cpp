#include "specification/evaluate/full_judging.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/functions.h"
#include "specification/primitives/loops.h"
#include "tensor/codec.h"

namespace ttrace::specification {
namespace {

// 0 for finite numbers, else which of the others it is.
int class_of(double value) {
  if (std::isfinite(value)) return 0;
  return std::isnan(value) ? 1 : value > 0 ? 2 : 3;
}

// The largest number of a type, beyond which values become infinite when they are stored.
double largest_of(tensor::DType dtype) {
  switch (dtype) {
    case tensor::DType::kFloat16:
      return 65504;
    case tensor::DType::kFloat8E4M3:
      return 448;
    case tensor::DType::kFloat8E5M2:
      return 57344;
    case tensor::DType::kFloat64:
      return std::numeric_limits<double>::max();
    default:
      return 0x1.fep127;
  }
}

// Calls visit(i, element) for element i of the cut, whose elements are dense, and its row-major
// index in the whole.
template <typename Visit>
void for_cut(const tensor::Shape& shape, const Cut& cut, const Visit& visit) {
  std::uint64_t outer = 1;
  std::uint64_t inner = 1;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (d < cut.dim) outer *= shape[d];
    if (d > cut.dim) inner *= shape[d];
  }
  std::uint64_t next = 0;
  for (std::uint64_t o = 0; o < outer; ++o) {
    for (std::uint64_t p = 0; p < cut.count; ++p) {
      const std::uint64_t first = (o * shape[cut.dim] + cut.start + p * cut.step) * inner;
      for (std::uint64_t i = 0; i < inner; ++i) visit(next++, first + i);
    }
  }
}

}  // namespace

FullJudging::FullJudging(const Value& expected, const Value& recorded, tensor::DType dtype,
                         const measure::ExecutionContext& context)
    : expected_(expected.to_dense()),
      recorded_(recorded.to_dense()),
      dtype_(dtype),
      largest_(largest_of(dtype)),
      context_(context),
      sums_(recorded.shape()),
      columns_(recorded.shape().empty() ? 1 : recorded.shape().back()),
      marks_(static_cast<std::size_t>(recorded.size()), 0),
      has_bands_(sums_.error.size(), 0) {}

template <typename Visit>
Bands FullJudging::over_rows(const Visit& visit) const {
  const std::uint64_t rows = sums_.error.size();
  const std::uint64_t length =
      std::max<std::uint64_t>(1, kElementsPerCall / std::max<std::uint64_t>(columns_, 1));
  std::vector<Bands> parts(static_cast<std::size_t>((rows + length - 1) / length));
  for_ranges(context_, rows, length, [&](std::uint64_t begin, std::uint64_t end) {
    for (std::uint64_t r = begin; r < end; ++r) visit(r, parts[begin / length]);
  });
  Bands sum{};
  for (const Bands& part : parts) add(part, sum);
  return sum;
}

void FullJudging::compare(ExpressionJudgement& judgement) {
  std::vector<RowDifference> parts(sums_.error.size());
  sums_.bands = over_rows([&](std::uint64_t r, Bands& bands) {
    parts[r] = compare_row(r);
    if (!mark_bands(r, expected_.data() + r * columns_)) return;
    for (std::uint64_t i = r * columns_; i < (r + 1) * columns_; ++i) {
      if (marks_[i] < 2) continue;
      Band& band = bands[marks_[i] - 1];
      const double e = stored_if_beyond(expected_.data()[i]);
      const double apart = recorded_.data()[i] - e;
      ++band.elements;
      band.error += apart * apart;
      band.expected += e * e;
    }
  });
  judgement.equal_bits = true;
  for (const RowDifference& part : parts) {
    judgement.non_finite += part.non_finite;
    judgement.endless += part.endless;
    judgement.equal_bits = judgement.equal_bits && part.equal;
    left_out_ = left_out_ || part.left_out;
    sums_.product += part.product;
  }
  if (judgement.non_finite > 0) judgement.share = std::numeric_limits<double>::infinity();
}

// Sets the bands of the elements that count. Returns whether some are not in the first.
bool FullJudging::mark_bands(std::uint64_t r, const double* e) {
  std::uint8_t* marks = marks_.data() + r * columns_;
  unsigned largest = 0;
  for (std::uint64_t i = 0; i < columns_; ++i) {
    if (marks[i] != 0) largest = std::max(largest, exponent_of(e[i]));
  }
  unsigned last = 0;
  for (std::uint64_t i = 0; i < columns_; ++i) {
    if (marks[i] == 0) continue;
    marks[i] = static_cast<std::uint8_t>(1 + band_of(exponent_of(e[i]), largest));
    last = std::max<unsigned>(last, marks[i]);
  }
  has_bands_[r] = last > 1 ? 1 : 0;
  return last > 1;
}

void FullJudging::add_draw(const Value& moved_value, std::uint64_t draws) {
  const Value moved = moved_value.to_dense();
  const auto weight = static_cast<double>(draws);
  std::vector<double> drifts(sums_.error.size(), 0.0);
  std::vector<double> fourths(sums_.error.size(), 0.0);
  const Bands more = over_rows([&](std::uint64_t r, Bands& bands) {
    for (std::uint64_t i = r * columns_; i < (r + 1) * columns_; ++i) {
      const double e = expected_.data()[i];
      const double apart = moved.data()[i] - e;
      if (marks_[i] == 0 || !std::isfinite(apart)) continue;
      const double square = apart * apart;
      sums_.spread[r] += square / weight;
      fourths[r] += square * square / weight;
      drifts[r] += apart * e;
      if (has_bands_[r] == 0 || marks_[i] < 2) continue;
      bands[marks_[i] - 1].spread += square / weight;
      bands[marks_[i] - 1].spread_fourth += square * square / weight;
    }
  });
  add(more, sums_.bands);
  double drift = 0;
  for (std::size_t r = 0; r < drifts.size(); ++r) {
    drift += drifts[r];
    sums_.spread_fourth += fourths[r];
  }
  sums_.moved = base::hypotenuse(sums_.moved, drift / std::sqrt(weight));
  sums_.draws = draws;
}

void FullJudging::forget_draws() {
  std::fill(sums_.spread.begin(), sums_.spread.end(), 0.0);
  sums_.spread_fourth = 0;
  sums_.moved = 0;
  for (Band& band : sums_.bands) {
    band.spread = 0;
    band.spread_fourth = 0;
  }
}

std::optional<RowSums> FullJudging::with_sample(const Value& moved_cut, const Cut& cut) const {
  const Value moved = moved_cut.to_dense();
  Band whole;
  Bands bands{};
  double drift = 0;
  const auto count = [](double apart, double e, Band& band) {
    const double square = apart * apart;
    band.spread += square;
    band.spread_fourth += square * square;
    band.expected += e * e;
  };
  for_cut(expected_.shape(), cut, [&](std::uint64_t i, std::uint64_t element) {
    const double e = expected_.data()[element];
    const double apart = moved.data()[i] - e;
    if (!std::isfinite(apart) || marks_[element] == 0) return;
    count(apart, e, whole);
    drift += apart * e;
    if (marks_[element] > 1) count(apart, e, bands[marks_[element] - 1]);
  });
  if (!(whole.expected > 0)) return std::nullopt;
  RowSums sums = sums_;
  double all = 0;
  for (std::size_t r = 0; r < sums.spread.size(); ++r) {
    sums.spread[r] = whole.spread / whole.expected * sums.expected[r];
    all += sums.expected[r];
  }
  const double times = static_cast<double>(expected_.size()) / static_cast<double>(moved.size());
  const auto fourth_of = [times](const Band& sampled, double expected) {
    const double ratio = expected / sampled.expected;
    return sampled.spread_fourth * ratio * ratio / times;
  };
  sums.spread_fourth = fourth_of(whole, all);
  sums.moved = std::abs(drift) * all / whole.expected;
  for (std::size_t b = 1; b < kBands; ++b) {
    Band& band = sums.bands[b];
    if (band.error == 0) continue;
    if (!(bands[b].expected > 0)) return std::nullopt;
    band.spread = bands[b].spread / bands[b].expected * band.expected;
    band.spread_fourth = fourth_of(bands[b], band.expected);
  }
  return sums;
}

void FullJudging::add_drift_of_storage() {
  double drift = 0;
  for (std::uint64_t i = 0; i < expected_.size(); ++i) {
    const double e = expected_.data()[i];
    if (marks_[i] != 0) drift += (tensor::round_to(dtype_, e) - e) * e;
  }
  sums_.moved = base::hypotenuse(sums_.moved, drift);
}

bool FullJudging::is_equal() const {
  return !left_out_ && std::all_of(sums_.error.begin(), sums_.error.end(),
                                   [](double error) { return error == 0; });
}

bool FullJudging::is_zero() const {
  return std::all_of(sums_.expected.begin(), sums_.expected.end(),
                     [](double square) { return square == 0; });
}

// Rounds a value beyond the type's largest number: it becomes infinite, NaN in E4M3, or that
// number.
double FullJudging::stored_if_beyond(double e) const {
  return std::abs(e) > largest_ ? tensor::round_to(dtype_, e) : e;
}

FullJudging::RowDifference FullJudging::compare_row(std::uint64_t r) {
  const double* c = recorded_.data() + r * columns_;
  const double* e = expected_.data() + r * columns_;
  bool plain = true;
  for (std::uint64_t i = 0; i < columns_; ++i) {
    plain &= std::abs(c[i]) <= largest_;
    plain &= std::abs(e[i]) <= largest_;
  }
  RowDifference part = plain ? compare_plain(r, c, e) : compare_any(r, c, e);
  for (std::uint64_t i = 0; part.equal && i < columns_; ++i) {
    part.equal =
        c[i] == e[i] || marks_[r * columns_ + i] == 0 || tensor::round_to(dtype_, e[i]) == c[i];
  }
  return part;
}

// The usual case: all elements are finite.
FullJudging::RowDifference FullJudging::compare_plain(std::uint64_t r, const double* c,
                                                      const double* e) {
  constexpr std::uint64_t kSums = 8;
  double errors[kSums] = {};
  double expected[kSums] = {};
  double products[kSums] = {};
  const auto add = [&](std::uint64_t i, std::uint64_t s) {
    const double apart = c[i] - e[i];
    errors[s] += apart * apart;
    expected[s] += e[i] * e[i];
    products[s] += c[i] * e[i];
  };
  std::uint64_t i = 0;
  for (; i + kSums <= columns_; i += kSums) {
    for (std::uint64_t s = 0; s < kSums; ++s) add(i + s, s);
  }
  for (std::uint64_t s = 0; i < columns_; ++i, ++s) add(i, s);
  RowDifference part;
  for (std::uint64_t s = 0; s < kSums; ++s) {
    sums_.error[r] += errors[s];
    sums_.expected[r] += expected[s];
    part.product += products[s];
  }
  std::fill_n(marks_.begin() + static_cast<std::ptrdiff_t>(r * columns_), columns_, 1);
  return part;
}

FullJudging::RowDifference FullJudging::compare_any(std::uint64_t r, const double* c,
                                                    const double* expected) {
  RowDifference part;
  for (std::uint64_t i = 0; i < columns_; ++i) {
    const double e = stored_if_beyond(expected[i]);
    const int kind = class_of(c[i]);
    part.left_out = part.left_out || kind != 0;
    if (kind != class_of(e)) {
      ++part.non_finite;
      part.equal = false;
      part.left_out = true;
      continue;
    }
    // A mask makes values of -inf; a healthy run makes few values of +inf or NaN.
    if (kind == 1 || kind == 2) ++part.endless;
    if (kind != 0) continue;
    marks_[r * columns_ + i] = 1;
    const double apart = c[i] - e;
    sums_.error[r] += apart * apart;
    sums_.expected[r] += e * e;
    part.product += c[i] * e;
  }
  return part;
}

}  // namespace ttrace::specification
