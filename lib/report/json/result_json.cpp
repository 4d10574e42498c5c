#include "report/json/result_json.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <utility>

#include "base/text.h"
#include "comparison/coverage.h"
#include "localize/phase.h"
#include "report/finding_groups.h"
#include "report/json/compare_report_json.h"
#include "report/json/report_text_json.h"
#include "report/layer.h"

namespace ttrace::report {

json key_json(const trace::TensorKey& key) {
  json out{{"step", key.step}};
  if (key.microbatch) {
    out["microbatch"] = *key.microbatch;
  } else {
    out["microbatch"] = nullptr;
  }
  out["kind"] = kind_name(key.kind);
  out["name"] = key.name;
  out["call"] = key.call;
  if (key.copy != 0) out["copy"] = key.copy;
  return out;
}

json code_place_json(const localize::Place& place) {
  return {{"kind", localize::name_of(place.kind)}, {"of", place.of}};
}

void add_position(const trace::TensorKey& key, json& result) {
  const std::string module = trace::module_of(key);
  result["phase"] = phase_name(localize::phase_of(key));
  result["module"] = module;
  if (const auto layer = layer_of(module)) result["layer"] = *layer;
}

json causes_json(const std::vector<answer::Cause>& causes) {
  json out = json::array();
  for (const answer::Cause& cause : causes) {
    out.push_back({{"name", cause.name},
                   {"axis", cause.axis.empty() ? json(nullptr) : json(cause.axis)},
                   {"evidence", cause.evidence},
                   {"unexplained", number(cause.unexplained)}});
    if (cause.values.empty()) continue;
    json values = json::object();
    for (const auto& [name, value] : cause.values) {
      const auto* const real = std::get_if<double>(&value);
      values[std::string(name)] =
          real != nullptr ? number(*real)
                          : std::visit([](const auto& one) { return json(one); }, value);
    }
    out.back()["values"] = std::move(values);
  }
  return out;
}

json rejected_json(const std::vector<answer::RejectedCause>& rejected) {
  json out = json::array();
  for (const answer::RejectedCause& one : rejected) {
    out.push_back({{"name", one.name}, {"unexplained", number(one.unexplained)}});
  }
  return out;
}

json router_json(const comparison::RouterFlips& router) {
  json out{{"key", key_json(router.key)},       {"tokens", router.tokens},
           {"experts", router.experts},         {"flipped", router.flipped},
           {"unexplained", router.unexplained}, {"scores", router.scores},
           {"noise", number(router.noise)},     {"largest_gap", number(router.largest_gap)},
           {"after_flips", router.follows}};
  if (router.unexplained > 0) {
    out["first_unexplained"] = {{"token", router.first_unexplained}, {"why", router.why}};
  }
  return out;
}

json kink_json(const comparison::KinkFlips& kink) {
  return {{"key", key_json(kink.key)},   {"argument", key_json(kink.argument)},
          {"elements", kink.elements},   {"flipped", kink.flipped},
          {"at_limits", kink.at_limits}, {"at_maxima", kink.at_maxima},
          {"noise", number(kink.noise)}, {"largest", number(kink.largest)},
          {"moved", number(kink.moved)}};
}

namespace {

constexpr std::size_t kMostBoxes = 64;  // per shard

// An integer with all of its digits, if binary64 represents it exactly.
json whole_number_json(double value) {
  constexpr double kMost = 0x1p53;
  return std::abs(value) <= kMost ? json(static_cast<std::int64_t>(value)) : number(value);
}

json max_abs_json(const comparison::TensorComparison& result) {
  const auto& largest = result.comparison->measurement.total.largest;
  if (!largest) return nullptr;
  const auto value = [&result](double one) {
    return result.exact ? whole_number_json(one) : number(one);
  };
  json out{{"value", value(largest->difference)},
           {"index", largest->at},
           {"reference", value(largest->reference)},
           {"candidate", value(largest->candidate)}};
  if (const auto& place = result.comparison->measurement.largest_place) {
    out["rank"] = place->rank;
    out["local_index"] = place->local;
  }
  return out;
}

json nonfinite_json(const measure::TileStats& stats) {
  json out{{"reference", stats.nonfinite_reference},
           {"candidate", stats.nonfinite_candidate},
           {"equal", stats.nonfinite_equal},
           {"different", stats.nonfinite_different}};
  if (stats.first_nonfinite_difference) out["first"] = *stats.first_nonfinite_difference;
  return out;
}

json replay_json(const comparison::Replay& replay) {
  json worst = nullptr;
  if (replay.worst) {
    worst = {{"ratio", number(replay.worst->ratio)},
             {"index", replay.worst->at},
             {"replayed", number(replay.worst->replayed)},
             {"candidate", number(replay.worst->candidate)},
             {"bound", number(replay.worst->bound)}};
    if (replay.worst->place) {
      worst["rank"] = replay.worst->place->rank;
      worst["local_index"] = replay.worst->place->local;
    }
  }
  const double norm = replay.reference_norm;
  const double difference = replay.reference_difference_norm;
  const double error = difference == 0 ? 0 : norm > 0 ? difference / norm : HUGE_VAL;
  return {{"optimizer", replay.of},
          {"updates", replay.updates},
          {"outside", replay.outside},
          {"unmoved", replay.unmoved},
          {"bound_norm", number(replay.bound_norm)},
          {"worst", std::move(worst)},
          {"against_reference",
           {{"error", number(error)},
            {"difference_norm", number(difference)},
            {"reference_norm", number(norm)}}}};
}

// Where a shard lies and who holds it, as members of an object.
json shard_place_json(const measure::RankBoxes& owner) {
  const tensor::Box hull = tensor::hull(owner.boxes);
  return {{"origin", hull.origin}, {"extent", hull.extent}, {"ranks", owner.ranks}};
}

// The candidate's shard with the largest relative error.
json worst_slice_json(const measure::Measurement& measurement) {
  const measure::BlockStats* worst = nullptr;
  double worst_error = 0;
  for (const measure::BlockStats& block : measurement.blocks) {
    const double norm = measure::reference_norm(block.stats);
    const double difference = measure::difference_norm(block.stats);
    if (difference == 0) continue;
    const double error = norm > 0 ? difference / norm : HUGE_VAL;
    if (worst == nullptr || error > worst_error) {
      worst = &block;
      worst_error = error;
    }
  }
  if (worst == nullptr) return nullptr;
  json out = shard_place_json(*worst->owner);
  out["error"] = number(worst_error);
  if (worst->owner->boxes.size() > 1) {
    json boxes = json::array();
    for (const tensor::Box& box : worst->owner->boxes) {
      boxes.push_back({{"origin", box.origin}, {"extent", box.extent}});
      if (boxes.size() == kMostBoxes) break;
    }
    out["boxes"] = std::move(boxes);
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

json slice_json(const judge::Slice& slice) {
  const tensor::Box hull = tensor::hull(slice.boxes);
  const double norm = slice.reference_norm;
  const auto relative = [norm](double value) {
    return number(norm > 0 ? value / norm : (value > 0 ? HUGE_VAL : 0.0));
  };
  return {{"what", what_name(slice.what)},
          {"origin", hull.origin},
          {"extent", hull.extent},
          {"ranks", slice.ranks},
          {"error", relative(slice.difference_norm)},
          {"allowed", relative(slice.tolerance.allowed_norm())},
          {"formula", slice.tolerance.formula},
          {"passing_multiplier", number(slice.passing_multiplier())}};
}

void add_slices(const judge::SliceJudgement& slices, std::size_t most, json& out) {
  if (!slices.worst) return;
  // If slices are beyond their tolerance, the closest slice is the first of them.
  if (slices.beyond == 0) out["closest_slice"] = slice_json(*slices.worst);
  if (slices.beyond == 0) return;
  json found = json::array();
  for (const judge::Slice& slice : slices.found) {
    if (found.size() == most) break;
    found.push_back(slice_json(slice));
  }
  out["slices_beyond"] = slices.beyond;
  if (most > 0) out["slices"] = std::move(found);
}

}  // namespace

json shards_json(const comparison::TensorComparison& result, std::size_t most_ranks) {
  if (!result.comparison) return nullptr;
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
  if (!(all > 0) || !std::isfinite(all)) return nullptr;
  std::vector<std::size_t> order(blocks.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&squares](std::size_t a, std::size_t b) { return squares[a] > squares[b]; });
  json shards = json::array();
  std::size_t ranks = 0;
  for (const std::size_t i : order) {
    ranks += std::max<std::size_t>(blocks[i].owner->ranks.size(), 1);
    if (ranks > most_ranks) break;
    json shard = shard_place_json(*blocks[i].owner);
    const double norm = measure::reference_norm(blocks[i].stats);
    const double difference = measure::difference_norm(blocks[i].stats);
    const bool is_nan = blocks[i].stats.nonfinite_different > 0;
    shard["error"] = number(is_nan     ? NAN
                            : norm > 0 ? difference / norm
                                       : (difference > 0 ? HUGE_VAL : 0.0));
    shard["share"] = squares[i] / all;
    shards.push_back(std::move(shard));
  }
  return shards;
}

json result_json(const comparison::TensorComparison& result, std::size_t most_slices) {
  json out{{"id", id_of(result.key)},
           {"key", key_json(result.key)},
           {"outcome", outcome_name(result.outcome)},
           {"shape", result.shape},
           {"dtype", dtype_name(result.dtype)},
           {"elements", tensor::element_count(result.shape).value_or(0)}};
  add_position(result.key, out);
  if (result.candidate_dtype) out["candidate_dtype"] = dtype_name(*result.candidate_dtype);
  if (!result.reason.empty()) out["reason"] = result.reason;
  if (!result.nearest->empty()) out["nearest"] = *result.nearest;
  if (!result.comparison) return out;
  const comparison::ComparedNumbers& comparison = *result.comparison;
  const measure::TileStats& stats = comparison.measurement.total;
  const double norm = measure::reference_norm(stats);
  const double difference = measure::difference_norm(stats);
  const double allowed = comparison.tolerance.allowed_norm();
  const double error = comparison::told_error(result);
  out["error"] = number(error);
  out["error_in_eps"] = comparison.tolerance.epsilon > 0
                            ? number(error / comparison.tolerance.epsilon)
                            : json(nullptr);
  out["allowed"] = number(norm > 0 ? allowed / norm : (allowed > 0 ? HUGE_VAL : 0.0));
  out["used"] = number(comparison::told_share(result));
  out["rule"] = rule_text(comparison.tolerance);
  out["formula"] = comparison.tolerance.formula;
  out["passing_multiplier"] =
      result.exact ? json(nullptr) : number(comparison::told_multiplier(result));
  out["difference_norm"] = number(difference);
  out["reference_norm"] = number(norm);
  out["candidate_norm"] = number(measure::candidate_norm(stats));
  out["allowed_norm"] = number(allowed);
  out["max_abs"] = max_abs_json(result);
  out["mean_difference"] =
      stats.finite > 0 ? number(stats.sum_d / static_cast<double>(stats.finite)) : json(nullptr);
  const auto cosine = measure::cosine(stats);
  out["cosine"] = cosine ? number(*cosine) : json(nullptr);
  const auto fit = measure::fit_scale(stats);
  out["scale"] = fit ? number(fit->scale) : json(nullptr);
  out["residual"] = fit ? number(fit->residual_norm / norm) : json(nullptr);
  out["unequal"] = stats.unequal;
  const bool all_finite = stats.nonfinite_reference + stats.nonfinite_candidate == 0;
  if (!all_finite) out["nonfinite"] = nonfinite_json(stats);
  if (comparison.measurement.replicas_differ) {
    out["replica_drift"] = number(norm > 0 ? comparison.measurement.replicas->distance_norm / norm
                                           : comparison.measurement.replicas->distance_norm);
  }
  out["worst_slice"] = worst_slice_json(comparison.measurement);
  if (comparison.replay) out["replay"] = replay_json(*comparison.replay);
  add_slices(comparison.slices, most_slices, out);
  if (result.tokens_left_out > 0) out["tokens_left_out"] = result.tokens_left_out;
  if (const std::uint64_t rows = comparison::rows_left_out(result); rows > 0) {
    out["rows_left_out"] = rows;
  }
  return out;
}

}  // namespace ttrace::report
