#include "judge/noise_estimate.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace ttrace::judge {
namespace {

double share_of_cell(const measure::Grid& grid, std::size_t cell, double elements) {
  return static_cast<double>(tensor::volume(grid.cell(cell))) / elements;
}

double elements_of(const measure::Grid& grid) {
  return static_cast<double>(tensor::element_count(grid.shape()).value_or(0));
}

// (Σ q)² / Σ q² over parts of equal weight is the number of parts that carry q: the participation
// ratio of physics, 1 for one part and the number of parts where all are alike.
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

}  // namespace

double NoiseEstimate::norm() const { return *std::max_element(norms.begin(), norms.end()); }

double NoiseEstimate::largest_value() const {
  return *std::max_element(largest.begin(), largest.end());
}

double three_digits_up(double value) {
  if (!(value > 0) || !std::isfinite(value)) return value;
  const double exponent = std::floor(std::log10(value)) - 2;
  // A division of whole numbers gives the decimal fraction that the file shows.
  const double power = std::pow(10, std::abs(exponent));
  return exponent < 0 ? std::ceil(value * power) / power : std::ceil(value / power) * power;
}

NoiseEstimate estimate_of(const measure::Noise& noise, const measure::Grid& grid) {
  const measure::Grid one(grid.shape(), tensor::Shape(grid.shape().size(), 1));
  NoiseEstimate estimate{noise.reference_norm, noise.norms, noise.largest, one, {}};
  for (const double part : noise.coherence) estimate.coherence.push_back(three_digits_up(part));
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

PartNoise noise_within(const NoiseEstimate& estimate, const std::vector<tensor::Box>& boxes) {
  const double norm = estimate.norm();
  const double elements = elements_of(estimate.grid);
  if (!(norm > 0) || !std::isfinite(norm)) return {norm, 1};
  if (estimate.cells.empty()) {
    double inside = 0;
    for (const tensor::Box& box : boxes) inside += static_cast<double>(tensor::volume(box));
    return {norm * std::sqrt(inside / elements), 1};
  }
  std::map<std::size_t, double> shares;
  for (const tensor::Box& box : boxes) {
    estimate.grid.for_each_overlap(box,
                                   [&](std::size_t cell, double share) { shares[cell] += share; });
  }
  double square = 0;
  Participation participation;
  for (const auto& [cell, share] : shares) {
    const double weight = share * share_of_cell(estimate.grid, cell, elements);
    const double here = estimate.cells[cell] * estimate.cells[cell] * weight;
    participation.add(here, weight);
    square += here;
  }
  return {norm * std::sqrt(square), participation.share()};
}

PartNoise noise_of_all(const NoiseEstimate& estimate) {
  PartNoise all = noise_within(estimate, {tensor::whole(estimate.grid.shape())});
  all.norm = estimate.norm();
  return all;
}

std::uint64_t freedom(const PartNoise& noise, std::uint64_t elements) {
  return static_cast<std::uint64_t>(std::ceil(static_cast<double>(elements) * noise.spread));
}

}  // namespace ttrace::judge
