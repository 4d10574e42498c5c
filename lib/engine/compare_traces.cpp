#include "engine/compare_traces.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <set>

#include "base/error.h"
#include "base/parallel.h"
#include "base/text.h"
#include "comparison/calibration_checks.h"
#include "comparison/initial_results.h"
#include "comparison/judge_pairs.h"
#include "comparison/measure_pairs.h"
#include "comparison/noise_runs.h"
#include "comparison/noise_source.h"
#include "comparison/pairing.h"
#include "comparison/run_facts.h"
#include "comparison/run_verdict.h"
#include "engine/truth_pass.h"
#include "localize/dataflow.h"
#include "localize/explain.h"
#include "localize/frontier.h"
#include "localize/name_suggestions.h"
#include "localize/rank_groups.h"
#include "localize/second_suspects.h"
#include "replay/optimizer/gradient_norm.h"
#include "replay/optimizer/replay_updates.h"
#include "replay/optimizer/reuse_update_verdicts.h"
#include "replay/optimizer/settings.h"
#include "replay/optimizer/unplayed_updates.h"
#include "replay/routing/routing_flips.h"

namespace ttrace::engine {
namespace {

using comparison::CompareReport;
using comparison::Result;
using judge::Outcome;

std::vector<std::string> tolerance_file_warnings(const trace::Manifest& reference,
                                                 const std::vector<trace::TensorKey>& keys,
                                                 const CompareOptions& options) {
  std::vector<std::string> warnings =
      comparison::calibration_warnings(reference, *options.calibration, options.calibration_file);
  const judge::Policy& rules = options.calibration->rules;
  std::vector<std::size_t> used(rules.size(), 0);
  for (const trace::TensorKey& key : keys) {
    if (const auto number = judge::rule_for(rules, key)) ++used[*number];
  }
  for (std::size_t i = 0; i < rules.size(); ++i) {
    const std::string who =
        base::concat(options.calibration_file, ": /rules/", i, " (", rules[i].names.front(), ")");
    if (used[i] == 0) {
      warnings.push_back(base::concat(who, " is the first match of no tensor"));
    } else if (!rules[i].skip.empty() && !judge::skips(rules[i], options.today)) {
      warnings.push_back(base::concat(who, " ended on ", rules[i].until, ", so ",
                                      base::plural(used[i], "tensor"),
                                      " are judged again; renew it or take it out"));
    }
  }
  return warnings;
}

std::vector<localize::Node> nodes_of(const std::vector<comparison::Pair>& pairs,
                                     const std::vector<Result>& results) {
  std::vector<localize::Node> nodes;
  nodes.reserve(pairs.size());
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    const layout::View& view =
        pairs[i].reference != nullptr ? *pairs[i].reference : *pairs[i].candidate;
    // Copies that differ follow from gradients whose copies do, whatever the replay says of each.
    const bool replayed = results[i].comparison && results[i].comparison->replay &&
                          results[i].outcome != Outcome::kReplicaConflict;
    nodes.push_back({pairs[i].key, view.order, replayed, localize::holders_of(view)});
  }
  return nodes;
}

std::vector<std::string> unique_reasons(const std::vector<Result>& results, Outcome outcome) {
  std::vector<std::string> reasons;
  std::set<std::string> seen;
  for (const Result& result : results) {
    if (result.outcome == outcome && seen.insert(result.reason).second) {
      reasons.push_back(result.reason);
    }
  }
  return reasons;
}

// Puts results into the order of the data flow, in place: there may be a million. `position[i]` is
// where pair i went.
std::vector<std::size_t> reorder(const std::vector<std::size_t>& order,
                                 std::vector<Result>& results) {
  std::vector<std::size_t> position(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) position[order[i]] = i;
  std::vector<std::size_t> goes_to = position;
  for (std::size_t i = 0; i < order.size(); ++i) {
    while (goes_to[i] != i) {
      const std::size_t to = goes_to[i];
      std::swap(results[i], results[to]);
      std::swap(goes_to[i], goes_to[to]);
    }
  }
  return position;
}

// Whether the results' values are the reference's bit for bit. A number that many are summed up in
// (the loss) stands in the data flow for all of them, and integers may be equal by chance: of these
// it says nothing.
std::vector<bool> equal_bits(const std::vector<Result>& results) {
  std::vector<bool> equal;
  equal.reserve(results.size());
  for (const Result& result : results) {
    const bool sums_up =
        result.key.kind == trace::Kind::kLoss || result.key.kind == trace::Kind::kScalar;
    equal.push_back(result.outcome == Outcome::kMatch && result.comparison && !result.exact &&
                    !result.comparison->replay && !sums_up && result.tokens_left_out == 0 &&
                    !result.comparison->measurement.replicas_differ &&
                    result.comparison->measurement.total.unequal == 0);
  }
  return equal;
}

// As localize::UsedShares.
localize::UsedShares used_shares(const std::vector<Result>& results) {
  localize::UsedShares used(results.size());
  for (std::size_t i = 0; i < results.size(); ++i) {
    const Result& result = results[i];
    const bool judged = result.outcome == Outcome::kMatch || result.outcome == Outcome::kDiverged ||
                        result.outcome == Outcome::kBelowNoiseFloor;
    if (!judged || !result.comparison || result.comparison->replay) continue;
    if (result.comparison->measurement.total.nonfinite_different > 0) continue;
    if (result.exact) {
      if (result.outcome == Outcome::kMatch) used[i] = 0;
      continue;
    }
    const double share = comparison::used_share(*result.comparison);
    if (std::isfinite(share)) used[i] = share;
  }
  return used;
}

// By the numbers of nodes.
std::vector<comparison::Suspect> suspects_of(const std::vector<localize::Node>& nodes,
                                             const localize::Dataflow& flow,
                                             const std::vector<Outcome>& outcomes,
                                             const localize::Frontier& frontier,
                                             const std::vector<Result>& results) {
  std::vector<bool> on_frontier(results.size(), false);
  for (const localize::Finding& finding : frontier.findings) {
    for (const std::size_t member : finding.members) on_frontier[member] = true;
  }
  std::vector<comparison::Suspect> suspects;
  for (const localize::SecondSuspect& one :
       localize::second_suspects(nodes, flow, outcomes, used_shares(results), on_frontier)) {
    suspects.push_back({one.node, one.used, one.used_before, one.largest});
  }
  return suspects;
}

// Numbers of nodes become those of the reordered results.
void to_positions(const std::vector<std::size_t>& position, CompareReport& out) {
  for (comparison::Suspect& suspect : out.suspects) {
    suspect.result = position[suspect.result];
    if (suspect.largest) suspect.largest = position[*suspect.largest];
  }
  for (comparison::SettingDifference& setting : out.settings) {
    for (std::size_t& update : setting.updates) update = position[update];
    std::sort(setting.updates.begin(), setting.updates.end());
  }
}

struct Sides {
  comparison::Side reference;
  comparison::Side candidate;
  std::vector<comparison::Side> noise;
  comparison::DroppedKeys dropped_of_reference;
  comparison::DroppedKeys dropped_of_candidate;
};

Sides sides_of(const trace::Source& reference, const trace::Source& candidate,
               const std::vector<const trace::Source*>& noise,
               const std::optional<layout::MapRules>& map, CompareReport& out) {
  const auto side = [&](const trace::Source& source, const std::vector<layout::MapRule>& rules,
                        comparison::DroppedKeys* dropped) {
    layout::Mapped mapped =
        layout::apply_map(rules, map ? map->file : "", comparison::tensors_of(source.manifest()));
    for (std::string& warning : mapped.warnings) out.warnings.push_back(std::move(warning));
    if (dropped != nullptr) *dropped = std::move(mapped.dropped);
    return comparison::Side{&source, std::move(mapped.tensors)};
  };
  const layout::MapRules rules = map.value_or(layout::MapRules{});
  Sides sides;
  sides.reference = side(reference, rules.reference, &sides.dropped_of_reference);
  sides.candidate = side(candidate, rules.candidate, &sides.dropped_of_candidate);
  for (const trace::Source* run : noise) {
    sides.noise.push_back(side(*run, rules.reference, nullptr));
  }
  out.map_rules = rules.file;
  return sides;
}

}  // namespace

CompareReport compare_traces(const trace::Source& reference, const trace::Source& candidate,
                             const std::vector<const trace::Source*>& noise,
                             const CompareOptions& options) {
  const auto started = std::chrono::steady_clock::now();
  CompareReport out;
  comparison::require_sound_layouts(reference);
  comparison::require_sound_layouts(candidate);
  for (const trace::Source* run : noise) comparison::require_sound_layouts(*run);
  const comparison::NoiseRuns noise_runs =
      comparison::check_noise_runs(reference, candidate, noise);
  out.warnings = noise_runs.warnings;
  const Sides sides = sides_of(reference, candidate, noise_runs.runs, options.map, out);
  std::vector<comparison::Pair> pairs =
      comparison::pair_traces(sides.reference, sides.candidate, sides.noise);
  comparison::mark_dropped(sides.dropped_of_reference, sides.dropped_of_candidate, pairs, out);
  std::vector<trace::TensorKey> keys;
  for (const comparison::Pair& pair : pairs) keys.push_back(pair.key);
  comparison::require_matches(options.selection, keys);
  out.reference = comparison::facts_of(reference);
  out.candidate = comparison::facts_of(candidate);
  out.kinds_in_neither = comparison::kinds_in_neither(reference.manifest(), candidate.manifest());
  for (const trace::Source* run : noise_runs.runs) out.noise_runs.push_back(run->path());
  for (std::string& warning : comparison::run_warnings(reference, candidate, noise_runs.runs)) {
    out.warnings.push_back(std::move(warning));
  }

  const comparison::NoiseSource noise_source(reference.manifest(), options.calibration);
  const judge::Policy no_rules;
  const judge::Policy& rules = options.calibration ? options.calibration->rules : no_rules;
  if (options.calibration != nullptr) {
    out.tolerance_file = options.calibration_file;
    if (noise.empty()) out.noise_runs = options.calibration->runs;
    for (std::string& warning : tolerance_file_warnings(reference.manifest(), keys, options)) {
      out.warnings.push_back(std::move(warning));
    }
  }

  const comparison::LostRanks lost_reference = comparison::lost_ranks_of(reference);
  const comparison::LostRanks lost_candidate = comparison::lost_ranks_of(candidate);
  for (const auto* lost : {&lost_reference, &lost_candidate}) {
    out.warnings.insert(out.warnings.begin(), lost->problems.begin(), lost->problems.end());
  }
  out.results = comparison::initial_results(
      {reference, candidate, options.selection, rules, options.today, lost_reference.words,
       lost_candidate.words, comparison::absences_of(reference, lost_reference),
       comparison::absences_of(candidate, lost_candidate), options.common},
      pairs);
  if (options.common) out.left_out = comparison::left_out_of(pairs, out.results);
  comparison::FinishedWork nothing_kept;
  comparison::FinishedWork& work = options.work != nullptr ? *options.work : nothing_kept;
  comparison::prepare_work(options.division, candidate, pairs, work, out.results);
  comparison::WorkHooks hooks{nullptr, options.progress, options.stop};
  if (work.listens()) {
    hooks.finished = [&](std::size_t i) { comparison::tell_measurement(work, out.results[i]); };
  }
  comparison::measure_pairs({reference, candidate, noise_source}, pairs, options.threads,
                            out.results, hooks);
  comparison::mark_unmeasured(out.results);
  comparison::check_measured_noise(reference, pairs, out.results);
  if (options.calibration != nullptr) {
    comparison::check_calibrated_parameters(reference.manifest(), *options.calibration,
                                            options.calibration_file, pairs, out.results);
  }

  for (std::string& warning : replay::replay_updates(reference, candidate, pairs, options.threads,
                                                     work, hooks, out.results)) {
    out.warnings.push_back(std::move(warning));
  }
  out.interrupted = comparison::interruption_of(out.results);
  if (options.on_measured) options.on_measured({pairs, out.results});
  const std::size_t most_slices = options.all_slices ? std::numeric_limits<std::size_t>::max()
                                                     : judge::SliceJudgement::kMostKept;
  comparison::judge_results(
      comparison::Tolerances(reference.manifest(), rules, out.results, most_slices), pairs,
      comparison::SummedGradients(reference, pairs), out.results);

  replay::judge_gradient_norms(reference, candidate, pairs, out.results);
  replay::judge_unplayed_updates(reference, candidate, pairs, options.threads, out.results);
  replay::carry_parameters(candidate, pairs, options.threads, out.results);
  if (options.truth != nullptr) {
    const layout::MapRules map = options.map.value_or(layout::MapRules{});
    add_truth({*options.truth, sides.reference, sides.candidate, map.reference, pairs,
               options.threads, work, hooks},
              out);
  }

  const std::vector<localize::Node> nodes = nodes_of(pairs, out.results);
  const std::vector<trace::Module> modules =
      layout::mapped_modules(options.map ? options.map->reference : std::vector<layout::MapRule>{},
                             reference.manifest().modules);
  const localize::Dataflow flow = localize::build_dataflow(nodes, modules);
  out.from_modules = flow.from_modules;
  replay::explain_routing({reference, candidate, pairs, nodes, flow, modules, noise_source, rules,
                           most_slices, options.threads},
                          out);
  std::vector<Outcome> outcomes;
  for (const Result& result : out.results) outcomes.push_back(result.outcome);
  const localize::Frontier frontier =
      localize::find_frontier(nodes, flow, outcomes, equal_bits(out.results));
  out.downstream = frontier.downstream;
  out.suspects = suspects_of(nodes, flow, outcomes, frontier, out.results);
  out.settings = replay::compare_settings(reference.manifest(), candidate.manifest(),
                                          options.selection, pairs, out.results);
  const std::vector<std::size_t> position = reorder(flow.topological_order, out.results);
  to_positions(position, out);
  out.findings = localize::explain_findings({reference, candidate, pairs, modules, flow, position},
                                            frontier, out.results);

  localize::find_nearest_names(out.results);
  for (const Outcome outcome : judge::kAllOutcomes) out.counts[outcome] = 0;
  for (const Result& result : out.results) ++out.counts[result.outcome];
  for (const std::string& reason : unique_reasons(out.results, Outcome::kUnreadable)) {
    if (std::find(out.warnings.begin(), out.warnings.end(), reason) == out.warnings.end()) {
      out.warnings.push_back(reason);
    }
  }
  comparison::decide({lost_reference.problems.size(), lost_candidate.problems.size(),
                      comparison::is_same_run(reference, candidate)},
                     out);

  for (const Result& result : out.results) {
    if (result.comparison) out.environment.bytes_read += result.comparison->measurement.bytes_read;
  }
  out.environment.threads = base::resolve_threads(options.threads);
  out.environment.seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
  return out;
}

}  // namespace ttrace::engine
