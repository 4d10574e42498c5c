#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <utility>

#include "base/text.h"
#include "comparison/coverage.h"
#include "report/finding_groups.h"
#include "report/to_answer/parts.h"
#include "report/to_answer/to_answer.h"

namespace ttrace::report {
namespace {

using answer::AnsweredTensor;

constexpr std::size_t kMostBoxes = 64;  // per shard

double relative(double value, double norm) {
  if (norm > 0) return value / norm;
  return value > 0 ? HUGE_VAL : 0.0;
}

// A number that binary64 represents with all of its digits.
AnsweredTensor::Exact exact_integer(double value) {
  constexpr double kMost = 0x1p53;
  return {value, std::abs(value) <= kMost};
}

std::optional<AnsweredTensor::Largest> largest_of(const comparison::TensorComparison& result) {
  const auto& largest = result.comparison->measurement.total.largest;
  if (!largest) return std::nullopt;
  const auto value = [&result](double one) {
    return result.exact ? exact_integer(one) : AnsweredTensor::Exact{one, false};
  };
  AnsweredTensor::Largest out{value(largest->difference), largest->at, value(largest->reference),
                              value(largest->candidate),  {},          {}};
  if (const auto& place = result.comparison->measurement.largest_place) {
    out.rank = place->rank;
    out.local_index = place->local;
  }
  return out;
}

AnsweredTensor::Nonfinite nonfinite_of(const measure::TileStats& stats) {
  AnsweredTensor::Nonfinite out{stats.nonfinite_reference,
                                stats.nonfinite_candidate,
                                stats.nonfinite_equal,
                                stats.nonfinite_different,
                                {}};
  if (stats.first_nonfinite_difference) out.first = *stats.first_nonfinite_difference;
  return out;
}

AnsweredTensor::Replayed replayed_of(const comparison::Replay& replay) {
  AnsweredTensor::Replayed out;
  out.optimizer = replay.of;
  out.updates = replay.updates;
  out.outside = replay.outside;
  out.unmoved = replay.unmoved;
  out.bound_norm = replay.bound_norm;
  if (replay.worst) {
    AnsweredTensor::WorstReplay worst{replay.worst->ratio,
                                      replay.worst->at,
                                      replay.worst->replayed,
                                      replay.worst->candidate,
                                      replay.worst->bound,
                                      {},
                                      {}};
    if (replay.worst->place) {
      worst.rank = replay.worst->place->rank;
      worst.local_index = replay.worst->place->local;
    }
    out.worst = std::move(worst);
  }
  const double difference = replay.reference_difference_norm;
  out.against_reference = {relative(difference, replay.reference_norm), difference,
                           replay.reference_norm};
  return out;
}

// Where a shard lies and who holds it.
AnsweredTensor::Shard shard_of(const measure::RankBoxes& owner) {
  const tensor::Box hull = tensor::hull(owner.boxes);
  AnsweredTensor::Shard shard;
  shard.hull = {hull.origin, hull.extent};
  shard.ranks = owner.ranks;
  return shard;
}

// The candidate's shard with the largest relative error.
std::optional<AnsweredTensor::Shard> worst_shard_of(const measure::Measurement& measurement) {
  const measure::BlockStats* worst = nullptr;
  double worst_error = 0;
  for (const measure::BlockStats& block : measurement.blocks) {
    const double difference = measure::difference_norm(block.stats);
    if (difference == 0) continue;
    const double error = relative(difference, measure::reference_norm(block.stats));
    if (worst == nullptr || error > worst_error) {
      worst = &block;
      worst_error = error;
    }
  }
  if (worst == nullptr) return std::nullopt;
  AnsweredTensor::Shard out = shard_of(*worst->owner);
  out.error = worst_error;
  if (worst->owner->boxes.size() > 1) {
    for (const tensor::Box& box : worst->owner->boxes) {
      out.boxes.push_back({box.origin, box.extent});
      if (out.boxes.size() == kMostBoxes) break;
    }
  }
  return out;
}

std::string_view what_name(judge::Slice::What what) {
  switch (what) {
    case judge::Slice::What::kShard:
      return "shard";
    case judge::Slice::What::kBlock:
      return "block";
    case judge::Slice::What::kScale:
      return "scale";
    case judge::Slice::What::kElement:
      return "element";
  }
  return "";
}

AnsweredTensor::Slice slice_of(const judge::Slice& slice) {
  const tensor::Box hull = tensor::hull(slice.boxes);
  return {std::string(what_name(slice.what)),
          {hull.origin, hull.extent},
          slice.ranks,
          relative(slice.difference_norm, slice.reference_norm),
          relative(slice.tolerance.allowed_norm(), slice.reference_norm),
          slice.tolerance.formula,
          slice.passing_multiplier()};
}

void add_slices(const judge::SliceJudgement& slices, std::size_t most,
                AnsweredTensor::Numbers& out) {
  if (!slices.worst) return;
  // If slices are beyond their tolerance, the closest slice is the first of them.
  if (slices.beyond == 0) {
    out.closest_slice = slice_of(*slices.worst);
    return;
  }
  out.slices_beyond = slices.beyond;
  for (const judge::Slice& slice : slices.found) {
    if (out.slices.size() == most) break;
    out.slices.push_back(slice_of(slice));
  }
}

AnsweredTensor::Numbers numbers_of(const comparison::TensorComparison& result,
                                   std::size_t most_slices) {
  const comparison::ComparedNumbers& comparison = *result.comparison;
  const measure::TileStats& stats = comparison.measurement.total;
  const double norm = measure::reference_norm(stats);
  const double allowed = comparison.tolerance.allowed_norm();
  AnsweredTensor::Numbers out;
  out.error = comparison::told_error(result);
  if (comparison.tolerance.epsilon > 0) {
    out.error_in_eps = out.error / comparison.tolerance.epsilon;
  }
  out.allowed = relative(allowed, norm);
  out.rule = rule_text(comparison.tolerance);
  out.formula = comparison.tolerance.formula;
  if (!result.exact) out.passing_multiplier = comparison::told_multiplier(result);
  out.difference_norm = measure::difference_norm(stats);
  out.reference_norm = norm;
  out.candidate_norm = measure::candidate_norm(stats);
  out.allowed_norm = allowed;
  out.max_abs = largest_of(result);
  if (stats.finite > 0) out.mean_difference = stats.sum_d / static_cast<double>(stats.finite);
  out.cosine = measure::cosine(stats);
  if (const auto fit = measure::fit_scale(stats)) {
    out.scale = fit->scale;
    out.residual = fit->residual_norm / norm;
  }
  out.unequal = stats.unequal;
  if (stats.nonfinite_reference + stats.nonfinite_candidate > 0) {
    out.nonfinite = nonfinite_of(stats);
  }
  if (comparison.measurement.replicas_differ) {
    const double distance = comparison.measurement.replicas->distance_norm;
    out.replica_drift = norm > 0 ? distance / norm : distance;
  }
  out.worst_slice = worst_shard_of(comparison.measurement);
  if (comparison.replay) out.replay = replayed_of(*comparison.replay);
  add_slices(comparison.slices, most_slices, out);
  out.tokens_left_out = result.tokens_left_out;
  out.rows_left_out = comparison::rows_left_out(result);
  return out;
}

}  // namespace

AnsweredTensor tensor_of(const comparison::TensorComparison& result, std::size_t most_slices) {
  AnsweredTensor out = tensor_of_key(result.key);
  out.outcome = outcome_name(result.outcome);
  out.shape = result.shape;
  out.dtype = dtype_name(result.dtype);
  out.elements = tensor::element_count(result.shape).value_or(0);
  if (result.candidate_dtype) out.candidate_dtype = dtype_name(*result.candidate_dtype);
  out.reason = result.reason;
  out.nearest = *result.nearest;
  if (!result.comparison) return out;
  out.used = comparison::told_share(result);
  out.numbers = numbers_of(result, most_slices);
  return out;
}

std::vector<AnsweredTensor::Shard> shards_of(const comparison::TensorComparison& result,
                                             std::size_t most_ranks) {
  if (!result.comparison) return {};
  const std::vector<measure::BlockStats>& blocks = result.comparison->measurement.blocks;
  const bool by_count = result.comparison->measurement.total.nonfinite_different > 0;
  std::vector<double> squares;
  double all = 0;
  for (const measure::BlockStats& block : blocks) {
    const double difference = measure::difference_norm(block.stats);
    squares.push_back(by_count ? static_cast<double>(block.stats.nonfinite_different)
                               : difference * difference);
    all += squares.back();
  }
  if (!(all > 0) || !std::isfinite(all)) return {};
  std::vector<std::size_t> order(blocks.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&squares](std::size_t a, std::size_t b) { return squares[a] > squares[b]; });
  std::vector<AnsweredTensor::Shard> shards;
  std::size_t ranks = 0;
  for (const std::size_t i : order) {
    ranks += std::max<std::size_t>(blocks[i].owner->ranks.size(), 1);
    if (ranks > most_ranks) break;
    AnsweredTensor::Shard shard = shard_of(*blocks[i].owner);
    const bool is_nan = blocks[i].stats.nonfinite_different > 0;
    shard.error = is_nan ? NAN
                         : relative(measure::difference_norm(blocks[i].stats),
                                    measure::reference_norm(blocks[i].stats));
    shard.share = squares[i] / all;
    shards.push_back(std::move(shard));
  }
  return shards;
}

}  // namespace ttrace::report
