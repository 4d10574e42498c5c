#include "judge/noise_rule.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>
#include <utility>

#include "base/functions.h"
#include "base/text.h"

namespace ttrace::judge {
namespace {

// Makes no box of the cell, for speed: noise_within() asks for every cell of every slice.
double share_of_cell(const measure::Grid& grid, std::size_t cell, double elements) {
  std::uint64_t inside = 1;
  for (std::size_t d = grid.parts().size(); d-- > 0;) {
    const std::uint64_t part = cell % grid.parts()[d];
    cell /= grid.parts()[d];
    inside *= grid.border(d, part + 1) - grid.border(d, part);
  }
  return static_cast<double>(inside) / elements;
}

double elements_of(const measure::Grid& grid) {
  return static_cast<double>(tensor::element_count(grid.shape()).value_or(0));
}

// The participation ratio of physics: over cells of equal weight, (Σ q)² / Σ q² is the number of
// cells that carry q, from 1 if it is all in one cell to their number if all have the same.
class Participation {
 public:
  void add(double square, double weight) {
    if (!(weight > 0)) return;
    weight_ += weight;
    sum_ += square;
    of_squares_ += square * square / weight;
  }
  double share() const {
    return of_squares_ > 0 ? std::min(1.0, sum_ * sum_ / of_squares_ / weight_) : 1;
  }

 private:
  double weight_ = 0;
  double sum_ = 0;
  double of_squares_ = 0;
};

constexpr double kQuantile = 0.99;
constexpr std::uint64_t kManyElements = 4096;

// The continued fraction of the incomplete beta function (modified Lentz), for x < (a+1)/(a+b+2).
double beta_fraction(double a, double b, double x) {
  constexpr double kTiny = 1e-300;
  constexpr int kMostTerms = 100000;
  const auto away_from_zero = [](double v) { return std::abs(v) < kTiny ? kTiny : v; };
  double c = 1;
  double d = 1 / away_from_zero(1 - (a + b) * x / (a + 1));
  double fraction = d;
  for (int m = 1; m <= kMostTerms; ++m) {
    const double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
    d = 1 / away_from_zero(1 + even * d);
    c = away_from_zero(1 + even / c);
    fraction *= d * c;
    const double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
    d = 1 / away_from_zero(1 + odd * d);
    c = away_from_zero(1 + odd / c);
    const double step = d * c;
    fraction *= step;
    if (std::abs(step - 1) < 1e-15) break;
  }
  return fraction;
}

double regularized_beta(double a, double b, double x) {
  if (x <= 0) return 0;
  if (x >= 1) return 1;
  const double front =
      base::exponential(base::log_gamma(a + b) - base::log_gamma(a) - base::log_gamma(b) +
                        a * base::logarithm(x) + b * base::logarithm_of_1_plus(-x));
  if (x < (a + 1) / (a + b + 2)) return front * beta_fraction(a, b, x) / a;
  return 1 - front * beta_fraction(b, a, 1 - x) / b;
}

constexpr double kQuantumNamed = 0.01;  // share of the floor from which the formula mentions it

}  // namespace

double NoiseEstimate::norm() const { return *std::max_element(norms.begin(), norms.end()); }

double NoiseEstimate::largest_value() const {
  return *std::max_element(largest.begin(), largest.end());
}

double three_digits_up(double value) {
  if (!(value > 0) || !std::isfinite(value)) return value;
  const double exponent = std::floor(base::decimal_logarithm(value)) - 2;
  // Dividing whole numbers gives exactly the decimal fraction that a calibration file shows.
  const double power = base::power(10, std::abs(exponent));
  return exponent < 0 ? std::ceil(value * power) / power : std::ceil(value / power) * power;
}

NoiseEstimate estimate_of(const measure::MeasuredNoise& noise, const measure::Grid& grid) {
  const measure::Grid single(grid.shape(), tensor::Shape(grid.shape().size(), 1));
  NoiseEstimate estimate{noise.reference_norm, noise.norms, noise.largest, single, {}};
  for (const double one : noise.coherence) estimate.coherence.push_back(three_digits_up(one));
  const double norm = estimate.norm();
  if (!(norm > 0) || !std::isfinite(norm) || grid.cells() == 1) return estimate;
  estimate.grid = grid;
  const double elements = elements_of(grid);
  for (std::size_t cell = 0; cell < noise.cells.size(); ++cell) {
    const double even = norm * std::sqrt(share_of_cell(grid, cell, elements));
    estimate.cells.push_back(three_digits_up(noise.cells[cell] / even));
  }
  return estimate;
}

SliceNoise noise_within(const NoiseEstimate& estimate, const std::vector<tensor::Box>& boxes) {
  const double norm = estimate.norm();
  const double elements = elements_of(estimate.grid);
  if (!(norm > 0) || !std::isfinite(norm)) return {norm, 1};
  if (estimate.cells.empty()) {
    double inside = 0;
    for (const tensor::Box& box : boxes) inside += static_cast<double>(tensor::volume(box));
    return {norm * std::sqrt(inside / elements), 1};
  }
  std::vector<double> shares(estimate.cells.size(), 0);
  for (const tensor::Box& box : boxes) {
    estimate.grid.for_each_overlap(box,
                                   [&](std::size_t cell, double share) { shares[cell] += share; });
  }
  double square = 0;
  Participation participation;
  for (std::size_t cell = 0; cell < shares.size(); ++cell) {
    if (shares[cell] == 0) continue;
    const double weight = shares[cell] * share_of_cell(estimate.grid, cell, elements);
    const double here = estimate.cells[cell] * estimate.cells[cell] * weight;
    participation.add(here, weight);
    square += here;
  }
  return {norm * std::sqrt(square), participation.share()};
}

SliceNoise noise_of_all(const NoiseEstimate& estimate) {
  SliceNoise all = noise_within(estimate, {tensor::whole(estimate.grid.shape())});
  all.norm = estimate.norm();
  return all;
}

std::uint64_t freedom(const SliceNoise& noise, std::uint64_t elements) {
  return static_cast<std::uint64_t>(std::ceil(static_cast<double>(elements) * noise.spread));
}

double f_quantile(double p, double d1, double d2) {
  const auto probability = [d1, d2](double f) {
    return regularized_beta(d1 / 2, d2 / 2, d1 * f / (d1 * f + d2));
  };
  double low = 0;
  double high = 1;
  while (probability(high) < p && high < 1e300) high *= 2;
  while (high - low > 1e-10 * high) {
    const double middle = low + (high - low) / 2;
    (probability(middle) < p ? low : high) = middle;
  }
  return high;
}

double small_sample_factor(std::uint64_t elements, std::size_t runs) {
  if (elements == 0 || elements >= kManyElements) return 1;
  // Every tensor has many slices to judge, most of a size that has been computed before.
  static std::mutex mutex;
  static std::map<std::pair<std::uint64_t, std::size_t>, double> known;
  const std::lock_guard lock(mutex);
  const auto [found, fresh] = known.try_emplace({elements, runs}, 1.0);
  if (fresh) {
    const auto d1 = static_cast<double>(elements);
    const double quantile = f_quantile(kQuantile, d1, d1 * static_cast<double>(runs));
    found->second = std::sqrt(std::max(1.0, quantile));
  }
  return found->second;
}

namespace {

double widening_of(const NoisySlice& slice) {
  return small_sample_factor(slice.freedom, slice.runs);
}

double widened_floor(const NoiseConstants& constants, double widening) {
  return constants.floor * std::min(widening, kMostFloorWidening);
}

double quanta_of(const NoisySlice& slice, const NoiseConstants& constants) {
  return constants.floor * constants.quantum * std::sqrt(static_cast<double>(slice.elements));
}

}  // namespace

Tolerance noise_numbers(const NoisySlice& slice, double epsilon, const NoiseConstants& constants) {
  const double widening = widening_of(slice);
  Tolerance tolerance;
  tolerance.rule = Rule::kNoise;
  tolerance.epsilon = epsilon;
  tolerance.multiplier = constants.multiplier;
  tolerance.unit_norm = widening * slice.noise;
  tolerance.floor_norm = widened_floor(constants, widening) * epsilon * slice.reference_norm +
                         quanta_of(slice, constants) +
                         constants.absolute * std::sqrt(static_cast<double>(slice.elements));
  return tolerance;
}

Tolerance noise_tolerance(const NoisySlice& slice, double epsilon,
                          const NoiseConstants& constants) {
  const double widening = widening_of(slice);
  Tolerance tolerance = noise_numbers(slice, epsilon, constants);
  tolerance.formula =
      base::concat(base::short_number(constants.multiplier), "·",
                   widening > 1.05 ? base::concat(base::short_number(widening), "·noise") : "noise",
                   " + ", base::short_number(widened_floor(constants, widening)), "·ε");
  if (quanta_of(slice, constants) > kQuantumNamed * tolerance.floor_norm) {
    tolerance.formula += base::concat(" + ", base::short_number(constants.floor), "·quantum");
  }
  if (constants.absolute > 0) {
    tolerance.formula += base::concat(" + ", base::short_number(constants.absolute), "·√n");
  }
  return tolerance;
}

Tolerance scalar_tolerance(const NoisySlice& slice, double epsilon, double stored_epsilon,
                           const NoiseConstants& constants) {
  const double single = tensor::epsilon(tensor::DType::kFloat32);
  const double widening =
      std::min(small_sample_factor(slice.freedom, slice.runs), kMostFloorWidening);
  // noise_tolerance() multiplies this by the widened floor.
  const double floor_epsilon = std::max(stored_epsilon / widening, single);
  Tolerance tolerance = noise_tolerance(slice, std::min(floor_epsilon, epsilon), constants);
  tolerance.epsilon = epsilon;
  tolerance.formula = base::concat(
      base::short_number(constants.multiplier * small_sample_factor(slice.freedom, slice.runs)),
      "·noise + ", base::short_number(constants.floor), "·ε as stored");
  return tolerance;
}

}  // namespace ttrace::judge
