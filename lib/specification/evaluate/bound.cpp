#include "specification/evaluate/bound.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "judge/noise_rule.h"
#include "specification/primitives/noise.h"

namespace ttrace::specification {
namespace {

// Returns 0 if the allowed error has no limit: nothing is judged then, and below_bound says so.
double share_of(double error, double allowed) {
  if (error == 0 || !std::isfinite(allowed)) return 0;
  const double share = allowed > 0 ? error / allowed : std::numeric_limits<double>::infinity();
  return std::isnan(share) ? std::numeric_limits<double>::infinity() : share;
}

bool is_as_large(double bound, double norm) { return !(bound < norm); }

double total(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum;
}

// The number of independent values in the spread of `elements` elements.
std::uint64_t freedom_of(std::uint64_t elements, double spread, double spread_fourth) {
  if (!(spread_fourth > 0)) return elements;
  const double effective = spread * spread / spread_fourth;
  // Of spreads beyond binary64 the quotient is no number.
  if (!(effective < static_cast<double>(elements))) return elements;
  return std::max<std::uint64_t>(static_cast<std::uint64_t>(effective), 1);
}

// Holds the elements of every band against a bound of their own. Returns the number of elements in
// bands that are not exactly as expected, and whose bound is as large as their norm.
std::uint64_t judge_bands(const RowSums& sums, double stored, tensor::DType dtype,
                          ExpressionJudgement& judgement) {
  const double smallest = smallest_normal(dtype);
  std::uint64_t unjudged = 0;
  for (std::size_t b = 1; b < kBands; ++b) {
    const Band& band = sums.bands[b];
    if (band.error == 0) continue;
    const auto elements = static_cast<double>(band.elements);
    const double spread = band.spread + stored * band.expected + elements * smallest * smallest;
    const double widening =
        judge::small_sample_factor(freedom_of(band.elements, band.spread, band.spread_fourth),
                                   static_cast<std::size_t>(sums.draws));
    const double bound = kSpreadMultiplier * widening * std::sqrt(spread);
    if (is_as_large(bound, std::sqrt(band.expected))) unjudged += band.elements;
    const double share = share_of(std::sqrt(band.error), bound);
    if (share > kBandMultiplier) judgement.small_elements_beyond += band.elements;
    judgement.band_share = std::max(judgement.band_share, share);
  }
  judgement.share = std::max(judgement.share, judgement.band_share / kBandMultiplier);
  return unjudged;
}

}  // namespace

RowSums::RowSums(const tensor::Shape& of) : shape(of) {
  std::uint64_t rows = 1;
  for (std::size_t d = 0; d + 1 < shape.size(); ++d) rows *= shape[d];
  error.assign(rows, 0.0);
  expected.assign(rows, 0.0);
  spread.assign(rows, 0.0);
}

std::uint64_t RowSums::elements() const {
  return error.size() * (shape.empty() ? 1 : shape.back());
}

void judge_rows(const RowSums& sums, const StorageRounding& storage, tensor::DType dtype,
                std::size_t most_rows, ExpressionJudgement& judgement) {
  const double row_count = static_cast<double>(std::max<std::size_t>(sums.error.size(), 1));
  const auto elements = static_cast<double>(sums.elements());
  const double error = total(sums.error);
  const double expected = total(sums.expected);
  // ξ is uniform: its variance is 1/3.
  const double stored = storage.unit * storage.unit / 3;
  const double smallest = storage.quantum * storage.quantum / 4;
  const double drawn = total(sums.spread);
  const double spread = drawn + stored * expected + smallest * elements;

  const std::uint64_t freedom = freedom_of(sums.elements(), drawn, sums.spread_fourth);
  const double widening = judge::small_sample_factor(freedom, static_cast<std::size_t>(sums.draws));
  judgement.expected_norm = std::sqrt(expected);
  judgement.error = std::sqrt(error);
  judgement.bound = kSpreadMultiplier * widening * std::sqrt(spread);
  judgement.norm_share = share_of(judgement.error, judgement.bound);
  judgement.relative_error = error == 0 ? 0 : share_of(judgement.error, judgement.expected_norm);
  judgement.epsilons = judgement.relative_error / tensor::epsilon(dtype);
  judgement.share = std::max(judgement.share, judgement.norm_share);
  const std::uint64_t unjudged = judge_bands(sums, stored, dtype, judgement);
  judgement.below_bound =
      is_as_large(judgement.bound, judgement.expected_norm) || 2 * unjudged > sums.elements();

  if (expected > 0) {
    judgement.scale = sums.product / expected;
    const double apart = judgement.scale - 1;
    judgement.residual = std::sqrt(std::max(0.0, error - apart * apart * expected) / expected);
    if (sums.elements() >= kFewestToScale) {
      const double allowed = kScaleOfBound * judgement.bound / judgement.expected_norm +
                             kScaleOfSpread * sums.moved / expected +
                             2 * accumulation_roundoff(dtype);
      judgement.scale_share = share_of(std::abs(apart), allowed);
      judgement.share = std::max(judgement.share, judgement.scale_share);
    }
  }

  if (sums.error.size() < 2) return;
  for (std::size_t r = 0; r < sums.error.size(); ++r) {
    // A row is also allowed what rows have on average, and the tensor's relative spread.
    const double row_spread = sums.spread[r] + stored * sums.expected[r] + spread / row_count +
                              (expected > 0 ? spread / expected * sums.expected[r] : 0.0);
    const double bound = kSpreadMultiplier * std::sqrt(row_spread);
    const double row_error = std::sqrt(sums.error[r]);
    const double share = share_of(row_error, bound);
    judgement.row_share = std::max(judgement.row_share, share);
    if (share <= kRowMultiplier) continue;
    ++judgement.rows_beyond;
    tensor::Shape leading(sums.shape.begin(), sums.shape.end() - 1);
    judgement.rows.push_back(
        {tensor::coordinates(tensor::whole(leading), r), row_error, bound, share});
    const auto worse = [](const RowError& a, const RowError& b) { return a.share > b.share; };
    if (judgement.rows.size() > 2 * most_rows + 64) {
      std::stable_sort(judgement.rows.begin(), judgement.rows.end(), worse);
      judgement.rows.resize(most_rows);
    }
  }
  judgement.share = std::max(judgement.share, judgement.row_share / kRowMultiplier);
  std::stable_sort(judgement.rows.begin(), judgement.rows.end(),
                   [](const RowError& a, const RowError& b) { return a.share > b.share; });
  if (judgement.rows.size() > most_rows) judgement.rows.resize(most_rows);
}

}  // namespace ttrace::specification
