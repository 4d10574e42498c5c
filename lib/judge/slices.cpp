#include "judge/slices.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/text.h"

namespace ttrace::judge {
namespace {

constexpr double kOfKind = 8;  // the number of tensors that the mean of the kind counts as

// Computes the tolerance of each slice and keeps the slices that are beyond it.
class Judge {
 public:
  Judge(const NoiseEstimate& estimate, double epsilon, const NoiseConstants& constants,
        const std::vector<double>& own_rounding)
      : estimate_(estimate),
        epsilon_(epsilon),
        constants_(constants),
        own_rounding_(own_rounding) {}

  void add_slice(Slice slice, std::uint64_t elements) {
    if (elements == 0 || !std::isfinite(slice.difference_norm)) return;
    const SliceNoise noise = noise_within(estimate_, slice.boxes);
    slice.tolerance =
        noise_tolerance({noise.norm, estimate_.norms.size(), slice.reference_norm, elements,
                         std::min(freedom(noise, elements), kMostFreedomOfSlice)},
                        epsilon_, constants_);
    allow_own_rounding(own_rounding_within(slice.boxes), slice.tolerance);
    keep(std::move(slice));
  }

  void add_element(Slice slice, std::uint64_t elements) {
    const SliceNoise all = noise_of_all(estimate_);
    NoiseConstants wider = constants_;
    wider.multiplier *= kOutlierWidening;
    wider.floor *= kOutlierWidening;
    // The largest difference was chosen among all elements, so the small sample factor is that of
    // the whole tensor.
    slice.tolerance = noise_tolerance({estimate_.largest_value(), estimate_.norms.size(),
                                       slice.reference_norm, elements, freedom(all, elements)},
                                      epsilon_, wider);
    slice.times = kOutlierWidening;
    const double root = std::sqrt(static_cast<double>(elements));
    slice.tolerance.floor_norm -= (wider.absolute + wider.floor * wider.quantum) * root;
    slice.tolerance.floor_norm += wider.absolute * kOutlierWidening + wider.floor * wider.quantum;
    double largest = 0;
    for (const double one : own_rounding_) largest = std::max(largest, std::abs(one));
    allow_own_rounding(largest, slice.tolerance);
    keep(std::move(slice));
  }

  // Judges the scale of `slice`: its difference is the component of C - R along R, |k - 1|·‖R‖ with
  // k = ⟨C, R⟩/⟨R, R⟩. `along` is ⟨C - R, R⟩, `d2` is ‖C - R‖². The larger the component across R,
  // the larger the component along R may be by chance.
  void add_scale(Slice slice, double along, double d2, double coherence, std::uint64_t elements) {
    if (elements < kFewestForScale || !(coherence > 0)) return;
    if (!(slice.reference_norm > 0)) return;
    const bool whole = elements == tensor::element_count(estimate_.grid.shape());
    const SliceNoise noise = whole ? noise_of_all(estimate_) : noise_within(estimate_, slice.boxes);
    std::uint64_t freedom = judge::freedom(noise, elements);
    if (!whole) freedom = std::min(freedom, kMostFreedomOfSlice);
    slice.what = Slice::What::kScale;
    slice.difference_norm = std::abs(along) / slice.reference_norm;
    if (!std::isfinite(slice.difference_norm)) return;
    slice.times = whole ? kScaleMultiplier : kSliceScaleMultiplier;
    const double across =
        std::sqrt(std::max(0.0, d2 - slice.difference_norm * slice.difference_norm));
    NoiseConstants constants = constants_;
    constants.multiplier *= slice.times;
    constants.floor = 0;
    slice.tolerance =
        noise_tolerance({coherence * std::max(noise.norm, across), estimate_.norms.size(),
                         slice.reference_norm, elements, freedom},
                        epsilon_, constants);
    const double floor = kScaleFloor * constants_.floor;
    slice.tolerance.floor_norm +=
        std::max(floor * epsilon_, kScaleResolution) * slice.reference_norm +
        floor * constants_.quantum * std::sqrt(static_cast<double>(elements));
    slice.tolerance.formula =
        base::concat(base::short_number(constants.multiplier), "·", base::short_number(coherence),
                     "·noise + ", base::short_number(floor), "·ε");
    allow_own_rounding(own_rounding_within(slice.boxes), slice.tolerance);
    keep(std::move(slice));
  }

  SliceJudgement done(std::size_t most_kept) {
    std::stable_sort(
        judgement_.found.begin(), judgement_.found.end(),
        [](const Slice& a, const Slice& b) { return a.used_share() > b.used_share(); });
    if (judgement_.found.size() > most_kept) judgement_.found.resize(most_kept);
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

double along(const measure::TileStats& stats) { return stats.sum_rc - stats.sum_r2; }

void add_shards(const measure::Measurement& measurement, const std::vector<double>& coherence,
                Judge& judge) {
  // A shard may be cut along any dimension: use the largest coherence of all.
  double most = 0;
  for (const double one : coherence) most = std::max(most, one);
  const bool blocks_known = coherence.size() > 1 && most > coherence.front();
  if (measurement.blocks.size() < 2) return;
  for (const measure::BlockStats& block : measurement.blocks) {
    if (block.boxes.empty()) continue;
    Slice slice;
    slice.what = Slice::What::kShard;
    slice.boxes = block.boxes;
    slice.ranks = block.ranks;
    slice.part = block.part;
    slice.difference_norm = measure::difference_norm(block.stats);
    slice.reference_norm = measure::reference_norm(block.stats);
    if (blocks_known && block.stats.nonfinite_different == 0) {
      judge.add_scale(slice, along(block.stats), block.stats.sum_d2, most, block.stats.finite);
    }
    judge.add_slice(std::move(slice), block.stats.finite);
  }
}

void add_blocks(const measure::Measurement& measurement, const measure::Grid& grid,
                const std::vector<double>& coherence, Judge& judge) {
  if (measurement.cells.size() != grid.cells()) return;
  for (std::size_t d = 0; d < grid.parts().size(); ++d) {
    const std::size_t blocks = grid.parts()[d];
    if (blocks == 1) continue;
    const std::vector<measure::CellSums> sums = measure::sums_of_parts(grid, measurement.cells, d);
    for (std::size_t block = 0; block < blocks; ++block) {
      tensor::Box box = tensor::whole(grid.shape());
      box.origin[d] = grid.border(d, block);
      box.extent[d] = grid.border(d, block + 1) - grid.border(d, block);
      const std::uint64_t elements = tensor::volume(box);
      Slice slice;
      slice.what = Slice::What::kBlock;
      slice.boxes = {std::move(box)};
      slice.dim = d;
      slice.difference_norm = std::sqrt(sums[block].d2);
      slice.reference_norm = std::sqrt(sums[block].a2);
      if (d + 1 < coherence.size()) {
        judge.add_scale(slice, sums[block].along, sums[block].d2, coherence[d + 1], elements);
      }
      judge.add_slice(std::move(slice), elements);
    }
  }
}

void add_largest(const measure::Measurement& measurement, Judge& judge) {
  const auto& largest = measurement.total.largest;
  // Among few elements the largest difference says no more than the norm.
  if (!largest || measurement.total.finite < measure::Grid::kSmallestCell) return;
  Slice slice;
  slice.what = Slice::What::kElement;
  slice.boxes = {{largest->at, tensor::Shape(largest->at.size(), 1)}};
  slice.difference_norm = largest->difference;
  slice.reference_norm = std::abs(largest->reference);
  judge.add_element(std::move(slice), measurement.total.finite);
}

}  // namespace

std::string name_pattern(std::string_view name) {
  std::string pattern;
  std::size_t start = 0;
  while (start <= name.size()) {
    const std::size_t stop = std::min(name.find('.', start), name.size());
    const std::string_view component = name.substr(start, stop - start);
    const bool number =
        !component.empty() && std::all_of(component.begin(), component.end(),
                                          [](char c) { return c >= '0' && c <= '9'; });
    if (start > 0) pattern += '.';
    pattern += number ? std::string_view("*") : component;
    start = stop + 1;
  }
  return pattern;
}

void Coherence::add(const trace::TensorKey& key, const std::vector<double>& coherence,
                    std::uint64_t elements) {
  const std::string pattern = name_pattern(key.name);
  for (std::size_t which = 0; which < coherence.size(); ++which) {
    if (!std::isfinite(coherence[which])) continue;
    if (which > 0 && coherence[which] == 0) continue;
    const double square = std::min(1.0, coherence[which] * coherence[which]);
    Mean& alike = alike_[{key.kind, pattern, which}];
    alike.sum += square;
    ++alike.count;
    if (elements < kFewestForScale) continue;
    Mean& kind = kinds_[{key.kind, std::min<std::size_t>(which, 1)}];
    kind.sum += square;
    ++kind.count;
  }
}

std::vector<double> Coherence::of(const trace::TensorKey& key, std::size_t dims) const {
  if (key.kind == trace::Kind::kOptimizerState || !kinds_.contains({key.kind, 0})) return {};
  const std::string pattern = name_pattern(key.name);
  std::vector<double> found;
  for (std::size_t which = 0; which <= dims; ++which) {
    Mean mean;
    const auto kind = kinds_.find({key.kind, std::min<std::size_t>(which, 1)});
    if (kind != kinds_.end()) mean = {kOfKind * kind->second.sum / kind->second.count, kOfKind};
    const auto alike = alike_.find({key.kind, pattern, which});
    if (alike != alike_.end()) {
      mean.sum += alike->second.sum;
      mean.count += alike->second.count;
    }
    found.push_back(mean.count > 0 ? std::sqrt(mean.sum / mean.count) : 0);
  }
  return found;
}

double Slice::used_share() const {
  if (difference_norm == 0) return 0;
  const double allowed = tolerance.allowed_norm();
  return allowed > 0 ? difference_norm / allowed : std::numeric_limits<double>::infinity();
}

double Slice::passing_multiplier() const {
  return judge::passing_multiplier(tolerance, difference_norm) / times;
}

SliceJudgement judge_slices(const measure::Measurement& measurement, const NoiseEstimate& estimate,
                            double epsilon, const NoiseConstants& constants,
                            const std::vector<double>& own_rounding,
                            const std::vector<double>& coherence, std::size_t most_kept) {
  Judge judge(estimate, epsilon, constants, own_rounding);
  if (!std::isfinite(estimate.norm())) return judge.done(most_kept);
  add_shards(measurement, coherence, judge);
  add_blocks(measurement, estimate.grid, coherence, judge);
  add_largest(measurement, judge);
  const measure::TileStats& total = measurement.total;
  if (!coherence.empty() && total.nonfinite_different == 0) {
    Slice whole;
    whole.boxes = {tensor::whole(estimate.grid.shape())};
    whole.reference_norm = measure::reference_norm(total);
    judge.add_scale(std::move(whole), along(total), total.sum_d2, coherence.front(), total.finite);
  }
  return judge.done(most_kept);
}

}  // namespace ttrace::judge
