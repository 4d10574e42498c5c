#include <cmath>
#include <nlohmann/json.hpp>

#include "base/concat.h"
#include "report/json_report.h"
#include "report/parts_json.h"
#include "report/routing_json.h"
#include "report/truth_json.h"
#include "verdict/phase.h"

namespace ttrace::report {
namespace {

using json = nlohmann::ordered_json;

constexpr std::size_t kMostBoxes = 64;  // of a shard in one report

json max_abs_json(const Result& result) {
  const auto& largest = result.comparison->measurement.total.largest;
  if (!largest) return nullptr;
  json out{{"value", number(largest->difference)},
           {"index", largest->at},
           {"reference", number(largest->reference)},
           {"candidate", number(largest->candidate)}};
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
  return {{"optimizer", replay.optimizer},
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

void add_slices(const verdict::SliceJudgement& slices, json& out) {
  if (!slices.worst) return;
  out["closest_slice"] = slice_json(*slices.worst);
  if (slices.beyond == 0) return;
  json found = json::array();
  for (const verdict::Slice& slice : slices.found) found.push_back(slice_json(slice));
  out["slices_beyond"] = slices.beyond;
  out["slices"] = std::move(found);
}

json result_json(const Result& result) {
  json out{{"key", key_json(result.key)},
           {"outcome", outcome_name(result.outcome)},
           {"shape", result.shape},
           {"dtype", dtype_name(result.dtype)},
           {"elements", tensor::element_count(result.shape).value_or(0)}};
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
  out["nonfinite"] = nonfinite_json(stats);
  if (comparison.measurement.replicas_differ) {
    out["replica_drift"] = number(norm > 0 ? comparison.measurement.replicas.distance_norm / norm
                                           : comparison.measurement.replicas.distance_norm);
  }
  out["worst_slice"] = worst_slice_json(comparison.measurement);
  if (comparison.replay) out["replay"] = replay_json(*comparison.replay);
  add_slices(comparison.slices, out);
  if (result.tokens_left_out > 0) out["tokens_left_out"] = result.tokens_left_out;
  if (result.truth) out["truth"] = tensor_truth_json(*result.truth);
  return out;
}

json keys_json(const std::vector<std::size_t>& indices, const std::vector<Result>& results) {
  json keys = json::array();
  for (const std::size_t i : indices) keys.push_back(key_json(results[i].key));
  return keys;
}

json finding_json(const Finding& finding, const CompareReport& report) {
  const Result& result = report.results[finding.result];
  json out = result_json(result);
  if (!finding.one_sided_group.empty()) {
    out[result.outcome == verdict::Outcome::kExtra ? "extra_group" : "missing_group"] =
        finding.one_sided_group;
  }
  out["members"] = keys_json(finding.members, report.results);
  out["phase"] = phase_name(verdict::phase_of(result.key));
  out["source"] = {{"class", finding.class_name}, {"called_at", finding.called_at}};
  out["ranks"] = finding.ranks;
  out["where"] = finding.where;
  if (!finding.parts.empty()) out["parts"] = finding.parts;
  out["merged"] = finding.merged;
  if (result.outcome == verdict::Outcome::kReplicaConflict) {
    out["replica_classes"] = result.comparison->measurement.replicas.classes;
  } else {
    out["replica_classes"] = json::array();
  }
  out["depends_on"] = keys_json(finding.depends_on, report.results);
  out["downstream"] = keys_json(finding.downstream, report.results);
  json causes = json::array();
  for (const diagnosis::Cause& cause : finding.causes) {
    causes.push_back({{"name", cause.name},
                      {"axis", cause.axis.empty() ? json(nullptr) : json(cause.axis)},
                      {"evidence", cause.evidence},
                      {"unexplained", number(cause.unexplained)}});
  }
  out["causes"] = std::move(causes);
  return out;
}

// Paths need not be UTF-8; a report that cannot be written helps nobody.
std::string dumped(const json& value) {
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

template <typename Item, typename ToJson>
std::string lines(const std::vector<Item>& items, ToJson to_json) {
  std::string text = "[";
  for (std::size_t i = 0; i < items.size(); ++i) {
    text += i == 0 ? "\n    " : ",\n    ";
    text += dumped(to_json(items[i]));
  }
  return text + (items.empty() ? "]" : "\n  ]");
}

std::string part_text(const PartOfWork& part) {
  std::string text = base::concat("{\"index\": ", part.number.index, ", \"of\": ", part.number.of,
                                  ", \"interrupted\": ", part.interrupted ? "true" : "false");
  text += ", \"comparison\": " + comparison_id_text(part.comparison);
  return text + ", \"measurements\": " +
         lines(part.measurements, [](const std::string& line) { return json(line); }) + "}";
}

}  // namespace

std::string json_text(const CompareReport& report) {
  json counts = json::object();
  for (const auto& [outcome, count] : report.counts) counts[outcome_name(outcome)] = count;
  counts["total"] = report.results.size();
  const Environment& environment = report.environment;
  const json where{
      {"backend", environment.backend},       {"instruction_set", environment.instruction_set},
      {"threads", environment.threads},       {"seconds", environment.seconds},
      {"bytes_read", environment.bytes_read}, {"version", environment.version}};
  json tolerance{{"rule", report.noise_runs.empty() ? "fallback" : "noise"},
                 {"noise_runs", report.noise_runs}};
  if (!report.tolerance_file.empty()) tolerance["file"] = report.tolerance_file;
  std::string text = "{\n  \"schema\": " + dumped(kReportSchema);
  text += ",\n  \"verdict\": " + dumped(verdict_name(report.verdict));
  if (!report.why.empty()) text += ",\n  \"why\": " + dumped(report.why);
  text += ",\n  \"exit_code\": " + std::to_string(exit_code(report.verdict));
  text += ",\n  \"reference\": " + dumped(trace_json(report.reference));
  text += ",\n  \"candidate\": " + dumped(trace_json(report.candidate));
  text += ",\n  \"tolerance\": " + dumped(tolerance);
  if (!report.layout_rules.empty()) {
    text += ",\n  \"layout_rules\": " + dumped(report.layout_rules);
  }
  if (!report.map_rules.empty()) text += ",\n  \"map_rules\": " + dumped(report.map_rules);
  if (report.truth) text += ",\n  \"truth\": " + dumped(truth_json(report));
  if (!report.routers.empty()) text += ",\n  \"routing\": " + lines(report.routers, router_json);
  text +=
      ",\n  \"frontier_from\": " + dumped(report.from_modules ? "data_flow" : "execution_order");
  text += ",\n  \"counts\": " + dumped(counts);
  text += ",\n  \"frontier\": " + lines(report.findings, [&report](const Finding& finding) {
            return finding_json(finding, report);
          });
  text += ",\n  \"results\": " + lines(report.results, result_json);
  text +=
      ",\n  \"warnings\": " + lines(report.warnings, [](const std::string& w) { return json(w); });
  if (report.part) text += ",\n  \"part\": " + part_text(*report.part);
  text += ",\n  \"environment\": " + dumped(where);
  return text + "\n}\n";
}

}  // namespace ttrace::report
