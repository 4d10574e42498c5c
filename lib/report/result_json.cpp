#include "report/result_json.h"

#include <cmath>
#include <cstdint>

#include "report/parts_json.h"
#include "report/result_id.h"
#include "report/truth_json.h"

namespace ttrace::report {
namespace {

using json = nlohmann::ordered_json;

constexpr std::size_t kMostBoxes = 64;  // of a shard in one report

// With all of its digits, where binary64 has them all.
json whole_number(double value) {
  constexpr double kMost = 0x1p53;
  return std::abs(value) <= kMost ? json(static_cast<std::int64_t>(value)) : number(value);
}

json max_abs_json(const Result& result) {
  const auto& largest = result.comparison->measurement.total.largest;
  if (!largest) return nullptr;
  const auto value = [&result](double one) {
    return result.exact ? whole_number(one) : number(one);
  };
  json out{{"value", value(largest->difference)},
           {"index", largest->at},
           {"reference", value(largest->reference)},
           {"candidate", value(largest->candidate)}};
  if (result.largest_rank) {
    out["rank"] = *result.largest_rank;
    out["local_index"] = result.largest_local;
  }
  return out;
}

json nonfinite_json(const compare::TileStats& stats) {
  json out{{"reference", stats.nonfinite_reference},
           {"candidate", stats.nonfinite_candidate},
           {"equal", stats.nonfinite_equal},
           {"different", stats.nonfinite_different}};
  if (stats.first_nonfinite_difference) out["first"] = *stats.first_nonfinite_difference;
  return out;
}

json replay_json(const Replay& replay) {
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

// The candidate's shard with the largest relative error.
json worst_slice_json(const compare::Measurement& measurement) {
  const compare::BlockStats* worst = nullptr;
  double worst_error = 0;
  for (const compare::BlockStats& block : measurement.blocks) {
    const double norm = compare::reference_norm(block.stats);
    const double difference = compare::difference_norm(block.stats);
    if (difference == 0) continue;
    const double error = norm > 0 ? difference / norm : HUGE_VAL;
    if (worst == nullptr || error > worst_error) {
      worst = &block;
      worst_error = error;
    }
  }
  if (worst == nullptr) return nullptr;
  const tensor::Box hull = tensor::hull(worst->boxes);
  json out{{"origin", hull.origin},
           {"extent", hull.extent},
           {"ranks", worst->ranks},
           {"error", number(worst_error)}};
  if (worst->boxes.size() > 1) {
    json boxes = json::array();
    for (const tensor::Box& box : worst->boxes) {
      boxes.push_back({{"origin", box.origin}, {"extent", box.extent}});
      if (boxes.size() == kMostBoxes) break;
    }
    out["boxes"] = std::move(boxes);
  }
  return out;
}

std::string_view what_name(verdict::Slice::What what) {
  switch (what) {
    case verdict::Slice::What::kShard:
      return "shard";
    case verdict::Slice::What::kBlock:
      return "block";
    case verdict::Slice::What::kScale:
      return "scale";
    case verdict::Slice::What::kElement:
      return "element";
  }
  return "";
}

json slice_json(const verdict::Slice& slice) {
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

void add_slices(const verdict::SliceJudgement& slices, const ResultStyle& style, json& out) {
  if (!slices.worst) return;
  const std::size_t most = style.most_slices;
  // The closest is the first of those that are beyond.
  if (!style.version_2 || slices.beyond == 0) out["closest_slice"] = slice_json(*slices.worst);
  if (slices.beyond == 0) return;
  json found = json::array();
  for (const verdict::Slice& slice : slices.found) {
    if (found.size() == most) break;
    found.push_back(slice_json(slice));
  }
  out["slices_beyond"] = slices.beyond;
  if (most > 0) out["slices"] = std::move(found);
}

}  // namespace

json result_json(const Result& result, const ResultStyle& style) {
  json out = json::object();
  if (style.version_2) out["id"] = id_of(result.key);
  out.update({{"key", key_json(result.key)},
              {"outcome", style.outcome},
              {"shape", result.shape},
              {"dtype", dtype_name(result.dtype)},
              {"elements", tensor::element_count(result.shape).value_or(0)}});
  if (result.candidate_dtype) out["candidate_dtype"] = dtype_name(*result.candidate_dtype);
  if (!result.reason.empty()) out["reason"] = result.reason;
  if (!result.nearest.empty()) out["nearest"] = result.nearest;
  if (!result.comparison) return out;
  const Comparison& comparison = *result.comparison;
  const compare::TileStats& stats = comparison.measurement.total;
  const double norm = compare::reference_norm(stats);
  const double difference = compare::difference_norm(stats);
  const double allowed = comparison.tolerance.allowed_norm();
  const double error = relative_error(comparison.measurement);
  out["error"] = number(error);
  out["error_in_eps"] = comparison.tolerance.epsilon > 0
                            ? number(error / comparison.tolerance.epsilon)
                            : json(nullptr);
  out["allowed"] = number(norm > 0 ? allowed / norm : (allowed > 0 ? HUGE_VAL : 0.0));
  out["rule"] = rule_text(comparison.tolerance);
  out["formula"] = comparison.tolerance.formula;
  out["passing_multiplier"] = result.exact ? json(nullptr) : number(passing_multiplier(comparison));
  out["difference_norm"] = number(difference);
  out["reference_norm"] = number(norm);
  out["candidate_norm"] = number(compare::candidate_norm(stats));
  out["allowed_norm"] = number(allowed);
  out["max_abs"] = max_abs_json(result);
  out["mean_difference"] =
      stats.finite > 0 ? number(stats.sum_d / static_cast<double>(stats.finite)) : json(nullptr);
  const auto cosine = compare::cosine(stats);
  out["cosine"] = cosine ? number(*cosine) : json(nullptr);
  const auto fit = compare::fit_scale(stats);
  out["scale"] = fit ? number(fit->scale) : json(nullptr);
  out["residual"] = fit ? number(fit->residual_norm / norm) : json(nullptr);
  out["unequal"] = stats.unequal;
  const bool all_finite = stats.nonfinite_reference + stats.nonfinite_candidate == 0;
  if (!style.version_2 || !all_finite) out["nonfinite"] = nonfinite_json(stats);
  if (comparison.measurement.replicas_differ) {
    out["replica_drift"] = number(norm > 0 ? comparison.measurement.replicas.distance_norm / norm
                                           : comparison.measurement.replicas.distance_norm);
  }
  out["worst_slice"] = worst_slice_json(comparison.measurement);
  if (comparison.replay) out["replay"] = replay_json(*comparison.replay);
  add_slices(comparison.slices, style, out);
  if (result.tokens_left_out > 0) out["tokens_left_out"] = result.tokens_left_out;
  if (result.truth) out["truth"] = tensor_truth_json(*result.truth);
  return out;
}

}  // namespace ttrace::report
