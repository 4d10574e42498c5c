#include "verdict/slices.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/concat.h"
#include "base/number_text.h"
#include "tolerance/coherence.h"

namespace ttrace::verdict {
namespace {

using tolerance::NoiseConstants;
using tolerance::NoiseEstimate;

class Judge {
 public:
  Judge(const NoiseEstimate& estimate, double epsilon, const NoiseConstants& constants,
        const std::vector<double>& own_rounding)
      : estimate_(estimate),
        epsilon_(epsilon),
        constants_(constants),
        own_rounding_(own_rounding) {}

  void add_part(Slice slice, std::uint64_t elements) {
    if (elements == 0 || !std::isfinite(slice.difference_norm)) return;
    const tolerance::PartNoise noise = tolerance::noise_within(estimate_, slice.boxes);
    slice.tolerance = tolerance::noise_tolerance(
        {noise.norm, estimate_.norms.size(), slice.reference_norm, elements,
         std::min(tolerance::freedom(noise, elements), kMostFreedomOfPart)},
        epsilon_, constants_);
    tolerance::allow_own_rounding(own_rounding_within(slice.boxes), slice.tolerance);
    keep(std::move(slice));
  }

  void add_element(Slice slice, std::uint64_t elements) {
    const tolerance::PartNoise all = tolerance::noise_of_all(estimate_);
    NoiseConstants wider = constants_;
    wider.multiplier *= kOutlierWidening;
    wider.floor *= kOutlierWidening;
    // Of the whole tensor's elements, since the farthest of all of them is looked at.
    slice.tolerance = tolerance::noise_tolerance(
        {estimate_.largest_value(), estimate_.norms.size(), slice.reference_norm, elements,
         tolerance::freedom(all, elements)},
        epsilon_, wider);
    slice.tolerance.floor_norm -= wider.absolute * std::sqrt(static_cast<double>(elements));
    slice.tolerance.floor_norm += wider.absolute * kOutlierWidening;
    double largest = 0;
    for (const double one : own_rounding_) largest = std::max(largest, std::abs(one));
    tolerance::allow_own_rounding(largest, slice.tolerance);
    keep(std::move(slice));
  }

  // ‖C - R‖ here is what of it lies along R, |k - 1|·‖R‖ with k = ⟨C, R⟩/⟨R, R⟩. The more of the
  // candidate's difference lies across R, the more of it may lie along R by chance.
  void add_scale(const compare::TileStats& stats, double coherence) {
    const double norm = compare::reference_norm(stats);
    if (stats.finite < tolerance::kFewestForScale || !(norm > 0)) return;
    Slice slice;
    slice.what = Slice::What::kScale;
    slice.boxes = {tensor::whole(estimate_.grid.shape())};
    slice.reference_norm = norm;
    slice.difference_norm = std::abs(stats.sum_rc - stats.sum_r2) / norm;
    if (!std::isfinite(slice.difference_norm)) return;
    const double across =
        std::sqrt(std::max(0.0, stats.sum_d2 - slice.difference_norm * slice.difference_norm));
    const tolerance::PartNoise all = tolerance::noise_of_all(estimate_);
    NoiseConstants constants = constants_;
    constants.multiplier *= tolerance::kScaleMultiplier;
    constants.floor = 0;
    slice.tolerance =
        tolerance::noise_tolerance({coherence * std::max(all.norm, across), estimate_.norms.size(),
                                    norm, stats.finite, tolerance::freedom(all, stats.finite)},
                                   epsilon_, constants);
    slice.tolerance.floor_norm += std::max(tolerance::kScaleFloor * constants_.floor * epsilon_,
                                           tolerance::kScaleResolution) *
                                  norm;
    slice.tolerance.formula = base::concat(
        base::short_number(constants.multiplier), "·", base::short_number(coherence), "·noise + ",
        base::short_number(tolerance::kScaleFloor * constants_.floor), "·ε");
    tolerance::allow_own_rounding(own_rounding_within(slice.boxes), slice.tolerance);
    keep(std::move(slice));
  }

  SliceJudgement done() {
    std::stable_sort(
        judgement_.found.begin(), judgement_.found.end(),
        [](const Slice& a, const Slice& b) { return a.used_share() > b.used_share(); });
    if (judgement_.found.size() > SliceJudgement::kMostKept) {
      judgement_.found.resize(SliceJudgement::kMostKept);
    }
    return std::move(judgement_);
  }

 private:
  void keep(Slice slice) {
    if (!judgement_.worst || slice.used_share() > judgement_.worst->used_share()) {
      judgement_.worst = slice;
    }
    if (slice.difference_norm <= slice.tolerance.allowed_norm()) return;
    ++judgement_.beyond;
    judgement_.found.push_back(std::move(slice));
  }

  double own_rounding_within(const std::vector<tensor::Box>& boxes) const {
    if (own_rounding_.empty()) return 0;
    double square = 0;
    for (const tensor::Box& box : boxes) {
      for (std::uint64_t j = box.origin[0]; j < box.origin[0] + box.extent[0]; ++j) {
        square += own_rounding_[j] * own_rounding_[j];
      }
    }
    return std::sqrt(square);
  }

  const NoiseEstimate& estimate_;
  double epsilon_;
  NoiseConstants constants_;
  const std::vector<double>& own_rounding_;
  SliceJudgement judgement_;
};

void add_shards(const compare::Measurement& measurement, Judge& judge) {
  if (measurement.blocks.size() < 2) return;
  for (const compare::BlockStats& block : measurement.blocks) {
    if (block.boxes.empty()) continue;
    Slice slice;
    slice.what = Slice::What::kShard;
    slice.boxes = block.boxes;
    slice.ranks = block.ranks;
    slice.part = block.part;
    slice.difference_norm = compare::difference_norm(block.stats);
    slice.reference_norm = compare::reference_norm(block.stats);
    judge.add_part(std::move(slice), block.stats.finite);
  }
}

void add_blocks(const compare::Measurement& measurement, const compare::Grid& grid, Judge& judge) {
  if (measurement.cells.size() != grid.cells()) return;
  std::size_t inner = grid.cells();
  for (std::size_t d = 0; d < grid.parts().size(); ++d) {
    const std::size_t parts = grid.parts()[d];
    inner /= parts;
    if (parts == 1) continue;
    std::vector<compare::CellSums> sums(parts);
    for (std::size_t cell = 0; cell < measurement.cells.size(); ++cell) {
      compare::CellSums& into = sums[cell / inner % parts];
      into.d2 += measurement.cells[cell].d2;
      into.a2 += measurement.cells[cell].a2;
    }
    for (std::size_t part = 0; part < parts; ++part) {
      tensor::Box box = tensor::whole(grid.shape());
      box.origin[d] = grid.border(d, part);
      box.extent[d] = grid.border(d, part + 1) - grid.border(d, part);
      const std::uint64_t elements = tensor::volume(box);
      Slice slice;
      slice.what = Slice::What::kBlock;
      slice.boxes = {std::move(box)};
      slice.dim = d;
      slice.difference_norm = std::sqrt(sums[part].d2);
      slice.reference_norm = std::sqrt(sums[part].a2);
      judge.add_part(std::move(slice), elements);
    }
  }
}

void add_largest(const compare::Measurement& measurement, Judge& judge) {
  const auto& largest = measurement.total.largest;
  // Among few elements the farthest says what their norm says.
  if (!largest || measurement.total.finite < compare::Grid::kSmallestCell) return;
  Slice slice;
  slice.what = Slice::What::kElement;
  slice.boxes = {{largest->at, tensor::Shape(largest->at.size(), 1)}};
  slice.difference_norm = largest->difference;
  slice.reference_norm = std::abs(largest->reference);
  judge.add_element(std::move(slice), measurement.total.finite);
}

}  // namespace

double Slice::used_share() const {
  if (difference_norm == 0) return 0;
  const double allowed = tolerance.allowed_norm();
  return allowed > 0 ? difference_norm / allowed : std::numeric_limits<double>::infinity();
}

double Slice::passing_multiplier() const {
  const double multiplier = tolerance::passing_multiplier(tolerance, difference_norm);
  if (what == What::kElement) return multiplier / kOutlierWidening;
  return what == What::kScale ? multiplier / tolerance::kScaleMultiplier : multiplier;
}

SliceJudgement judge_slices(const compare::Measurement& measurement,
                            const tolerance::NoiseEstimate& estimate, double epsilon,
                            const tolerance::NoiseConstants& constants,
                            const std::vector<double>& own_rounding,
                            std::optional<double> coherence) {
  Judge judge(estimate, epsilon, constants, own_rounding);
  if (!std::isfinite(estimate.norm())) return judge.done();
  add_shards(measurement, judge);
  add_blocks(measurement, estimate.grid, judge);
  add_largest(measurement, judge);
  if (coherence && measurement.total.nonfinite_different == 0) {
    judge.add_scale(measurement.total, *coherence);
  }
  return judge.done();
}

}  // namespace ttrace::verdict
