#include "judge/slices.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/text.h"
#include "judge/fallback_rule.h"

namespace ttrace::judge {
namespace {

constexpr double kOfKind = 8;  // the number of tensors that the mean of the kind counts as

double used_share(double difference_norm, const Tolerance& tolerance) {
  if (difference_norm == 0) return 0;
  const double allowed = tolerance.allowed_norm();
  return allowed > 0 ? difference_norm / allowed : std::numeric_limits<double>::infinity();
}

// Computes the tolerance of each slice and keeps the slices that are beyond it.
class Judge {
 public:
  Judge(const measure::TileStats& total, const NoiseEstimate& estimate, double epsilon,
        const NoiseConstants& constants, const std::vector<double>& own_rounding)
      : estimate_(estimate),
        epsilon_(epsilon),
        constants_(constants),
        rounding_of_zeros_(rounding_of_zeros(total, epsilon)),
        own_rounding_(own_rounding),
        rms_unless_noisy_(estimate.norm() > 0 || total.finite == 0
                              ? 0
                              : measure::reference_norm(total) /
                                    std::sqrt(static_cast<double>(total.finite))),
        noise_of_all_(judge::noise_of_all(estimate)),
        unequal_(static_cast<double>(total.unequal)),
        reference_norm_(measure::reference_norm(total)) {}

  SliceNoise noise_of(const Slice& slice) const { return noise_within(estimate_, slice.boxes); }

  void add_slice(const Slice& slice, const SliceNoise& noise, std::uint64_t elements) {
    if (elements == 0 || !std::isfinite(slice.difference_norm)) return;
    const NoisySlice part{noise.norm, estimate_.norms.size(), reference_of(slice, elements),
                          elements, std::min(freedom(noise, elements), kMostFreedomOfSlice)};
    const double own = own_rounding_within(slice.boxes);
    NoiseConstants constants = constants_;
    // As for a whole tensor that no noise reaches.
    if (noise.norm == 0)
      constants.floor = std::max(constants.floor, unreached_floor(epsilon_, part));
    if (slice.reference_norm == 0 && noise.norm == 0) {
      constants.absolute = std::max(constants.absolute, rounding_of_zeros_);
    }
    keep({slice.what, slice.difference_norm, slice.times}, slice, [&](Formula formula) {
      Tolerance tolerance = tolerance_of(part, constants, formula);
      allow_own_rounding(own, tolerance);
      return tolerance;
    });
  }

  void add_element(const Slice& slice, std::uint64_t elements) {
    NoiseConstants wider = constants_;
    wider.multiplier *= kOutlierWidening;
    wider.floor *= kOutlierWidening;
    // Noise runs show how much all elements are rounded near 0, but which one of them falls on the
    // other side of a step is chance.
    wider.quantum = std::max(wider.quantum, wider.element_quantum);
    // The largest difference was chosen among all elements, so the small sample factor is that of
    // the whole tensor.
    const NoisySlice part{estimate_.largest_value(), estimate_.norms.size(), reference_of(slice, 1),
                          elements, freedom(noise_of_all_, elements)};
    double largest = 0;
    for (const double one : own_rounding_) largest = std::max(largest, std::abs(one));
    keep({slice.what, slice.difference_norm, kOutlierWidening}, slice, [&](Formula formula) {
      Tolerance tolerance = tolerance_of(part, wider, formula);
      const double root = std::sqrt(static_cast<double>(elements));
      tolerance.floor_norm -= (wider.absolute + wider.floor * wider.quantum) * root;
      tolerance.floor_norm += wider.absolute * kOutlierWidening + wider.floor * wider.quantum;
      allow_own_rounding(largest, tolerance);
      return tolerance;
    });
  }

  // Judges the scale of `slice`: its difference is the component of C - R along R, |k - 1|·‖R‖ with
  // k = ⟨C, R⟩/⟨R, R⟩. `along` is ⟨C - R, R⟩, `d2` is ‖C - R‖². The larger the component across R,
  // the larger the component along R may be by chance.
  void add_scale(const Slice& slice, const SliceNoise& noise_of_slice, double along, double d2,
                 double coherence, std::uint64_t elements) {
    if (elements < kFewestForScale || !(coherence > 0)) return;
    if (!(slice.reference_norm > 0) || carriers_of(slice) < kFewestForScale) return;
    const bool whole = elements == tensor::element_count(estimate_.grid.shape());
    const SliceNoise& noise = whole ? noise_of_all_ : noise_of_slice;
    std::uint64_t freedom = judge::freedom(noise, elements);
    if (!whole) freedom = std::min(freedom, kMostFreedomOfSlice);
    const Judged scale{Slice::What::kScale, std::abs(along) / slice.reference_norm,
                       whole ? kScaleMultiplier : kSliceScaleMultiplier};
    if (!std::isfinite(scale.difference_norm)) return;
    const double across =
        std::sqrt(std::max(0.0, d2 - scale.difference_norm * scale.difference_norm));
    NoiseConstants constants = constants_;
    constants.multiplier *= scale.times;
    constants.floor = 0;
    const double noisy = std::max(noise.norm, across);
    const NoisySlice part{coherence * noisy, estimate_.norms.size(), slice.reference_norm, elements,
                          freedom};
    const double floor =
        kScaleFloor * constants_.floor + (whole ? 0 : constants_.slice_scale_floor);
    // R has noise of its own, which C lacks: C is smaller along R by half of the noise's square. A
    // few runs may show little of it.
    const double most_noise =
        std::max(small_sample_factor(freedom, estimate_.norms.size()) * noise.norm, across);
    const double own_noise = most_noise * most_noise / (2 * slice.reference_norm);
    const double own = own_rounding_within(slice.boxes);
    keep(scale, slice, [&](Formula formula) {
      Tolerance tolerance = noise_numbers(part, epsilon_, constants);
      tolerance.floor_norm += own_noise +
                              std::max(floor * epsilon_, kScaleResolution) * slice.reference_norm +
                              floor * constants_.quantum * std::sqrt(static_cast<double>(elements));
      if (formula == Formula::kWritten) {
        tolerance.formula = base::concat(base::short_number(constants.multiplier), "·",
                                         base::short_number(coherence), "·noise + ",
                                         base::short_number(floor), "·ε + noise²/(2·‖R‖)");
      }
      allow_own_rounding(own, tolerance);
      return tolerance;
    });
  }

  SliceJudgement done(std::size_t most_kept) {
    std::stable_sort(
        judgement_.found.begin(), judgement_.found.end(),
        [](const Slice& a, const Slice& b) { return a.used_share() > b.used_share(); });
    if (judgement_.found.size() > most_kept) judgement_.found.resize(most_kept);
    return std::move(judgement_);
  }

 private:
  // One judgement of a slice: what of it is judged, its difference, and its multiplier.
  struct Judged {
    Slice::What what;
    double difference_norm;
    double times;
  };

  enum class Formula { kWritten, kLeftOut };

  // How many elements the scale of a slice is made of, at most: those that differ, by their share
  // of the squares. The gradient of a router's scores is zero but for the chosen experts, and a
  // block of it may have a single number, which has no scale of its own.
  double carriers_of(const Slice& slice) const {
    const double share = slice.reference_norm / reference_norm_;
    return unequal_ * std::min(1.0, share * share);
  }

  // For each element.
  static double rounding_of_zeros(const measure::TileStats& total, double epsilon) {
    if (total.finite == 0) return 0;
    const double rms =
        measure::reference_norm(total) / std::sqrt(static_cast<double>(total.finite));
    return kRoundingOfZeros * std::min(epsilon, tensor::epsilon(tensor::DType::kFloat32)) * rms;
  }

  Tolerance tolerance_of(const NoisySlice& part, const NoiseConstants& constants,
                         Formula formula) const {
    return formula == Formula::kWritten ? noise_tolerance(part, epsilon_, constants)
                                        : noise_numbers(part, epsilon_, constants);
  }

  // Few slices are kept. Only these are copied and get a formula.
  template <typename MakeTolerance>
  void keep(const Judged& judged, const Slice& slice, MakeTolerance make_tolerance) {
    const Tolerance numbers = make_tolerance(Formula::kLeftOut);
    const double share = used_share(judged.difference_norm, numbers);
    const bool is_worst = !judgement_.worst || share > judgement_.worst->used_share();
    const bool is_beyond = !(judged.difference_norm <= numbers.allowed_norm());
    if (!is_worst && !is_beyond) return;
    Slice kept = slice;
    kept.what = judged.what;
    kept.difference_norm = judged.difference_norm;
    kept.times = judged.times;
    kept.tolerance = make_tolerance(Formula::kWritten);
    if (is_worst) judgement_.worst = kept;
    if (!is_beyond) return;
    ++judgement_.beyond;
    judgement_.found.push_back(std::move(kept));
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

  // What ε is a share of. Where noise does not say how far the terms of a small value are rounded,
  // that is at least the usual size of as many values: a healthy -0.003 among values of 0.1, which
  // no noise reached, was off by 2^-25.
  double reference_of(const Slice& slice, std::uint64_t elements) const {
    return std::max(slice.reference_norm,
                    rms_unless_noisy_ * std::sqrt(static_cast<double>(elements)));
  }

  const NoiseEstimate& estimate_;
  double epsilon_;
  NoiseConstants constants_;
  double rounding_of_zeros_;
  const std::vector<double>& own_rounding_;
  // The root mean square of the reference where no noise run changes the tensor; else 0.
  double rms_unless_noisy_;
  SliceNoise noise_of_all_;
  double unequal_;
  double reference_norm_;
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
    if (block.owner->boxes.empty()) continue;
    Slice slice;
    slice.what = Slice::What::kShard;
    slice.boxes = block.owner->boxes;
    slice.ranks = block.owner->ranks;
    slice.part = block.owner->part;
    slice.difference_norm = measure::difference_norm(block.stats);
    slice.reference_norm = measure::reference_norm(block.stats);
    const SliceNoise noise = judge.noise_of(slice);
    if (blocks_known && block.stats.nonfinite_different == 0) {
      judge.add_scale(slice, noise, along(block.stats), block.stats.sum_d2, most,
                      block.stats.finite);
    }
    judge.add_slice(slice, noise, block.stats.finite);
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
      const SliceNoise noise = judge.noise_of(slice);
      if (d + 1 < coherence.size()) {
        judge.add_scale(slice, noise, sums[block].along, sums[block].d2, coherence[d + 1],
                        elements);
      }
      judge.add_slice(slice, noise, elements);
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
  judge.add_element(slice, measurement.total.finite);
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

std::vector<double> Coherence::of(const trace::TensorKey& key, std::size_t dims,
                                  const std::vector<double>& own) const {
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
    if (which < own.size() && std::isfinite(own[which]) &&
        own[which] > kUnlikeItsKind * found.back()) {
      found.back() = own[which];
    }
  }
  return found;
}

double Slice::used_share() const { return judge::used_share(difference_norm, tolerance); }

double Slice::passing_multiplier() const {
  return judge::passing_multiplier(tolerance, difference_norm) / times;
}

SliceJudgement judge_slices(const measure::Measurement& measurement, const NoiseEstimate& estimate,
                            double epsilon, const NoiseConstants& constants,
                            const std::vector<double>& own_rounding,
                            const std::vector<double>& coherence, std::size_t most_kept) {
  if (!std::isfinite(estimate.norm())) return {};
  Judge judge(measurement.total, estimate, epsilon, constants, own_rounding);
  add_shards(measurement, coherence, judge);
  add_blocks(measurement, estimate.grid, coherence, judge);
  add_largest(measurement, judge);
  const measure::TileStats& total = measurement.total;
  if (!coherence.empty() && total.nonfinite_different == 0) {
    Slice whole;
    whole.boxes = {tensor::whole(estimate.grid.shape())};
    whole.reference_norm = measure::reference_norm(total);
    judge.add_scale(whole, judge.noise_of(whole), along(total), total.sum_d2, coherence.front(),
                    total.finite);
  }
  return judge.done(most_kept);
}

}  // namespace ttrace::judge
