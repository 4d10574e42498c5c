// Fourier transforms of the lines along a dimension.
#include <algorithm>
#include <bit>
#include <cmath>
#include <numbers>
#include <optional>

#include "specification/primitives/families.h"
#include "specification/primitives/functions.h"
#include "specification/primitives/loops.h"
#include "specification/primitives/shape_rules.h"

namespace ttrace::specification {
namespace {

using tensor::Shape;

struct Point {
  double real = 0;
  double imaginary = 0;
};

Point operator+(Point a, Point b) { return {a.real + b.real, a.imaginary + b.imaginary}; }
Point operator*(Point a, Point b) {
  return {a.real * b.real - a.imaginary * b.imaginary, a.real * b.imaginary + a.imaginary * b.real};
}

// The time for a line of n elements grows with n times the prime factors of n.
constexpr std::uint64_t kLargestFactor = 4096;

bool has_factor_above(std::uint64_t most, std::uint64_t n) {
  for (std::uint64_t prime = 2; prime <= most && n > 1; ++prime) {
    while (n % prime == 0) n /= prime;
  }
  return n > 1;
}

double square_of(Point x) { return x.real * x.real + x.imaginary * x.imaginary; }

// The transform of lines of n points: Σ_j x[j] · e^(∓2πi·jk/n), by the prime factors of n.
class Transform {
 public:
  Transform(std::uint64_t length, bool inverse) : length_(length), turns_(length) {
    for (std::uint64_t k = 0; k < length; ++k) {
      const double angle =
          2 * std::numbers::pi * static_cast<double>(k) / static_cast<double>(length);
      turns_[k] = {cosine(angle), inverse ? sine(angle) : -sine(angle)};
    }
    for (std::uint64_t rest = length, prime = 2; rest > 1; ++prime) {
      if (prime * prime > rest) prime = rest;
      for (; rest % prime == 0; rest /= prime) factors_.push_back(prime);
    }
  }

  // `from` and `to` hold one line each.
  void apply(const std::vector<Point>& from, std::vector<Point>& to) const {
    into(from.data(), 1, to.data(), length_, 0);
  }

 private:
  // The transform of n points, each `stride` after the one before.
  void into(const Point* from, std::uint64_t stride, Point* to, std::uint64_t n,
            std::size_t level) const {
    if (n == 1) {
      *to = *from;
      return;
    }
    const std::uint64_t parts = factors_[level];
    const std::uint64_t each = n / parts;
    for (std::uint64_t part = 0; part < parts; ++part) {
      into(from + part * stride, stride * parts, to + part * each, each, level + 1);
    }
    std::vector<Point> terms(parts);
    for (std::uint64_t k = 0; k < each; ++k) {
      for (std::uint64_t part = 0; part < parts; ++part) terms[part] = to[part * each + k];
      for (std::uint64_t place = k; place < n; place += each) {
        Point sum;
        for (std::uint64_t part = 0; part < parts; ++part) {
          sum = sum + terms[part] * turns_[part * place % n * stride];
        }
        to[place] = sum;
      }
    }
  }

  std::uint64_t length_;
  std::vector<Point> turns_;            // e^(∓2πi·k/n)
  std::vector<std::uint64_t> factors_;  // ascending
};

// Kernels transform lines whose number has a larger prime factor by padded lines, three times
// (L. I. Bluestein, A linear filtering approach to the computation of discrete Fourier transform,
// 1970). Measured: up to 3 times the error.
constexpr std::uint64_t kLargestOwnFactor = 31;
constexpr double kPadded = 3;

// The size of the error of each element of a fast transform X of n elements, in unit roundoffs:
//   √(log2 n · Σ_j |X[j]|² · gcd(j - k, n) / n + max_j |X[j]|²).
// Every one of about log2 n stages rounds sums over each d-th point of the line, for divisors d of
// n. They hold the share d/n of |X[j]|, and their roundings go to the elements X[k] for which n/d
// divides j - k; n/d of them add up, each rounded in its own way. Kernels differ in the order of
// the stages, so that all divisors count. Growth with √(log n): W. M. Gentleman and G. Sande, Fast
// Fourier Transforms - for fun and profit (1966). Where a line repeats itself all of them are
// rounded alike: then their sum is up to |X[j]|. Errors of MKL for noise, tones, constants and
// offsets in lines of up to 4,096 elements: at most 1.7 times this.
class LostInStages {
 public:
  explicit LostInStages(std::uint64_t length) : length_(length) {
    for (std::uint64_t divisor = 1; divisor <= length; ++divisor) {
      if (length % divisor != 0) continue;
      // gcd(m, n) is the sum of Euler's φ over the common divisors of m and n.
      std::uint64_t coprime = divisor;
      for (std::uint64_t rest = divisor, prime = 2; rest > 1; ++prime) {
        if (rest % prime != 0) continue;
        coprime = coprime / prime * (prime - 1);
        while (rest % prime == 0) rest /= prime;
      }
      divisors_.push_back({divisor, static_cast<double>(coprime)});
    }
  }

  std::vector<double> of(const std::vector<Point>& transformed) const {
    std::vector<double> squares(length_);
    std::vector<double> sums(length_);
    for (const auto& [divisor, coprime] : divisors_) {
      std::fill_n(sums.begin(), divisor, 0.0);
      for (std::uint64_t k = 0; k < length_; ++k) {
        sums[k % divisor] += square_of(transformed[k]);
      }
      for (std::uint64_t k = 0; k < length_; ++k) squares[k] += coprime * sums[k % divisor];
    }
    double most = 0;
    for (const Point& x : transformed) most = std::max(most, square_of(x));
    const auto stages = static_cast<double>(std::bit_width(length_));
    const double padded = has_factor_above(kLargestOwnFactor, length_) ? kPadded : 1;
    for (double& square : squares) {
      square = padded * std::sqrt(square * stages / static_cast<double>(length_) + most);
    }
    return squares;
  }

 private:
  struct Divisor {
    std::uint64_t number;
    double coprime;  // how many smaller numbers have no factor in common with it
  };
  std::uint64_t length_;
  std::vector<Divisor> divisors_;
};

Shape fourier_shape(const ShapeCall& call) {
  Shape shape = argument(call, 0);
  const std::size_t dim = dimension(call, "dim", shape);
  if (call.arguments[1] != nullptr) require_fit("y", argument(call, 1), shape);
  if (shape[dim] != kAnyExtent && shape[dim] > 0 && has_factor_above(kLargestFactor, shape[dim])) {
    throw shape_error("a line of ", shape[dim], " elements: its number has a prime factor above ",
                      kLargestFactor);
  }
  if (call.declared.size() != shape.size()) return shape;
  const std::uint64_t wanted = call.declared[dim];
  if (wanted != kAnyExtent && shape[dim] != kAnyExtent && wanted > shape[dim]) {
    throw shape_error("a line of ", shape[dim], " elements has no ", wanted, " frequencies");
  }
  shape[dim] = wanted;
  return shape;
}

Value fourier(const EvaluationCall& call) {
  const auto dim = static_cast<std::size_t>(call.attributes.integer("dim"));
  const bool imaginary = call.attributes.flag("imaginary");
  const Value real = with_last(*call.arguments[0], dim);
  const Value* given = call.arguments[1];
  const std::optional<Value> other =
      given == nullptr ? std::nullopt : std::optional<Value>(with_last(*given, dim));
  const std::uint64_t n = real.shape().back();
  const std::uint64_t kept = call.shape[dim];
  Shape shape = real.shape();
  shape.back() = kept;
  Value result = Value::uninitialised(shape);
  if (result.size() == 0) return with_last_at(result, dim);
  const Transform transform(n, call.attributes.flag("inverse"));
  const LostInStages lost(n);
  const double unit = accumulation_roundoff(call.dtype);
  const auto rows = result.size() / kept;
  for_rows(call.context, rows, n * 16, [&](std::uint64_t begin, std::uint64_t end) {
    std::vector<Point> line(n);
    std::vector<Point> found(n);
    for (std::uint64_t row = begin; row < end; ++row) {
      for (std::uint64_t j = 0; j < n; ++j) {
        line[j] = {real.data()[row * n + j], other ? other->data()[row * n + j] : 0.0};
      }
      transform.apply(line, found);
      double* out = result.fresh() + row * kept;
      for (std::uint64_t k = 0; k < kept; ++k) {
        out[k] = imaginary ? found[k].imaginary : found[k].real;
      }
      if (call.noise == nullptr) continue;
      const Noise noise = call.noise->stream(imaginary ? 2 : 1);
      const std::vector<double> sizes = lost.of(found);
      for (std::uint64_t k = 0; k < kept; ++k) out[k] += noise.at(row * kept + k) * unit * sizes[k];
    }
  });
  return with_last_at(result, dim);
}

// Lines are transformed as a whole.
double work_of_lines(std::span<const Shape* const> arguments) {
  std::uint64_t longest = 1;
  for (const std::uint64_t extent : *arguments[0]) longest = std::max(longest, extent);
  return 8 * static_cast<double>(std::bit_width(longest));
}

}  // namespace

std::vector<Primitive> fourier_primitives() {
  using enum AttributeType;
  Primitive line =
      entry("fourier", {"x", "y"}, 1, {{"dim", kInteger}, {"inverse", kFlag}, {"imaginary", kFlag}},
            Rounding::kOnce, fourier_shape, fourier);
  line.cut = cut_across_lines;
  line.work = work_of_lines;
  line.shape_is_layout = true;
  return {line};
}

}  // namespace ttrace::specification
