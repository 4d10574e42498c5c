#include "engine/compare_traces.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <set>

#include "base/error.h"
#include "base/number_text.h"
#include "base/parallel.h"
#include "engine/calibration_checks.h"
#include "engine/carried_parameters.h"
#include "engine/compare_settings.h"
#include "engine/explain.h"
#include "engine/gradient_norm.h"
#include "engine/holders.h"
#include "engine/initial_results.h"
#include "engine/interruption.h"
#include "engine/left_out.h"
#include "engine/measure_pairs.h"
#include "engine/noise_runs.h"
#include "engine/noise_source.h"
#include "engine/open_checks.h"
#include "engine/pairing.h"
#include "engine/replay_updates.h"
#include "engine/routing_flips.h"
#include "engine/run_facts.h"
#include "engine/tensors_of.h"
#include "engine/tolerances.h"
#include "engine/truth.h"
#include "engine/unmatched.h"
#include "engine/unplayed_updates.h"
#include "engine/verdict_of_run.h"
#include "verdict/dataflow.h"
#include "verdict/frontier.h"
#include "verdict/second_suspects.h"

namespace ttrace::engine {
namespace {

using report::CompareReport;
using report::Result;
using verdict::Outcome;

std::vector<std::string> tolerance_file_warnings(const trace::Manifest& reference,
                                                 const std::vector<trace::TensorKey>& keys,
                                                 const CompareOptions& options) {
  std::vector<std::string> warnings =
      calibration_warnings(reference, *options.calibration, options.calibration_file);
  const tolerance::Policy& rules = options.calibration->rules;
  std::vector<std::size_t> used(rules.size(), 0);
  for (const trace::TensorKey& key : keys) {
    if (const auto number = tolerance::rule_for(rules, key)) ++used[*number];
  }
  for (std::size_t i = 0; i < rules.size(); ++i) {
    const std::string who =
        base::concat(options.calibration_file, ": /rules/", i, " (", rules[i].names.front(), ")");
    if (used[i] == 0) {
      warnings.push_back(base::concat(who, " is the first match of no tensor"));
    } else if (!rules[i].skip.empty() && !tolerance::skips(rules[i], options.today)) {
      warnings.push_back(base::concat(who, " ended on ", rules[i].until, ", so ",
                                      base::plural(used[i], "tensor"),
                                      " are judged again; renew it or take it out"));
    }
  }
  return warnings;
}

std::vector<verdict::Node> nodes_of(const std::vector<Pair>& pairs,
                                    const std::vector<Result>& results) {
  std::vector<verdict::Node> nodes;
  nodes.reserve(pairs.size());
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    const layout::View& view =
        pairs[i].reference != nullptr ? *pairs[i].reference : *pairs[i].candidate;
    // Copies that differ follow from gradients whose copies do, whatever the replay says of each.
    const bool replayed = results[i].comparison && results[i].comparison->replay &&
                          results[i].outcome != Outcome::kReplicaConflict;
    nodes.push_back({pairs[i].key, view.order, replayed, holders_of(view)});
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

// As verdict::UsedShares.
verdict::UsedShares used_shares(const std::vector<Result>& results) {
  verdict::UsedShares used(results.size());
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
    const double share = report::used_share(*result.comparison);
    if (std::isfinite(share)) used[i] = share;
  }
  return used;
}

// By the numbers of nodes.
std::vector<report::Suspect> suspects_of(const std::vector<verdict::Node>& nodes,
                                         const verdict::Dataflow& flow,
                                         const std::vector<Outcome>& outcomes,
                                         const verdict::Frontier& frontier,
                                         const std::vector<Result>& results) {
  std::vector<bool> on_frontier(results.size(), false);
  for (const verdict::Finding& finding : frontier.findings) {
    for (const std::size_t member : finding.members) on_frontier[member] = true;
  }
  std::vector<report::Suspect> suspects;
  for (const verdict::SecondSuspect& one :
       verdict::second_suspects(nodes, flow, outcomes, used_shares(results), on_frontier)) {
    suspects.push_back({one.node, one.used, one.used_before, one.largest});
  }
  return suspects;
}

// Numbers of nodes become those of the reordered results.
void to_positions(const std::vector<std::size_t>& position, CompareReport& out) {
  for (report::Suspect& suspect : out.suspects) {
    suspect.result = position[suspect.result];
    if (suspect.largest) suspect.largest = position[*suspect.largest];
  }
  for (report::SettingDifference& setting : out.settings) {
    for (std::size_t& update : setting.updates) update = position[update];
    std::sort(setting.updates.begin(), setting.updates.end());
  }
}

struct Sides {
  Side reference;
  Side candidate;
  std::vector<Side> noise;
  DroppedTensors dropped_of_reference;
  DroppedTensors dropped_of_candidate;
};

Sides sides_of(const trace::Source& reference, const trace::Source& candidate,
               const std::vector<const trace::Source*>& noise,
               const std::optional<layout::MapRules>& map, CompareReport& out) {
  const auto side = [&](const trace::Source& source, const std::vector<layout::MapRule>& rules,
                        DroppedTensors* dropped) {
    layout::Mapped mapped =
        layout::apply_map(rules, map ? map->file : "", tensors_of(source.manifest()));
    for (std::string& warning : mapped.warnings) out.warnings.push_back(std::move(warning));
    if (dropped != nullptr) *dropped = std::move(mapped.dropped);
    return Side{&source, std::move(mapped.tensors)};
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
  require_sound_layouts(reference);
  require_sound_layouts(candidate);
  for (const trace::Source* run : noise) require_sound_layouts(*run);
  const NoiseRuns noise_runs = check_noise_runs(reference, candidate, noise);
  out.warnings = noise_runs.warnings;
  const Sides sides = sides_of(reference, candidate, noise_runs.runs, options.map, out);
  std::vector<Pair> pairs = pair_traces(sides.reference, sides.candidate, sides.noise);
  mark_dropped(sides.dropped_of_reference, sides.dropped_of_candidate, pairs, out);
  std::vector<trace::TensorKey> keys;
  for (const Pair& pair : pairs) keys.push_back(pair.key);
  require_matches(options.selection, keys);
  out.reference = facts_of(reference);
  out.candidate = facts_of(candidate);
  out.kinds_in_neither = kinds_in_neither(reference.manifest(), candidate.manifest());
  for (const trace::Source* run : noise_runs.runs) out.noise_runs.push_back(run->path());
  for (std::string& warning : run_warnings(reference, candidate, noise_runs.runs)) {
    out.warnings.push_back(std::move(warning));
  }

  const NoiseSource noise_source(reference.manifest(), options.calibration);
  const tolerance::Policy no_rules;
  const tolerance::Policy& rules = options.calibration ? options.calibration->rules : no_rules;
  if (options.calibration != nullptr) {
    out.tolerance_file = options.calibration_file;
    if (noise.empty()) out.noise_runs = options.calibration->runs;
    for (std::string& warning : tolerance_file_warnings(reference.manifest(), keys, options)) {
      out.warnings.push_back(std::move(warning));
    }
  }

  const LostRanks lost_reference = lost_ranks_of(reference);
  const LostRanks lost_candidate = lost_ranks_of(candidate);
  for (const auto* lost : {&lost_reference, &lost_candidate}) {
    out.warnings.insert(out.warnings.begin(), lost->problems.begin(), lost->problems.end());
  }
  out.results = initial_results(
      {reference, candidate, options.selection, rules, options.today, lost_reference.words,
       lost_candidate.words, absences_of(reference, lost_reference),
       absences_of(candidate, lost_candidate), options.common},
      pairs);
  if (options.common) out.left_out = left_out_of(pairs, out.results);
  FinishedWork nothing_kept;
  FinishedWork& work = options.work != nullptr ? *options.work : nothing_kept;
  prepare_work(options.division, candidate, pairs, work, out.results);
  WorkHooks hooks{nullptr, options.progress, options.stop};
  if (work.listens()) {
    hooks.finished = [&](std::size_t i) { tell_measurement(work, out.results[i]); };
  }
  measure_pairs({reference, candidate, noise_source}, pairs, options.threads, out.results, hooks);
  mark_unmeasured(out.results);
  check_measured_noise(reference, pairs, out.results);
  if (options.calibration != nullptr) {
    check_calibrated_parameters(reference.manifest(), *options.calibration,
                                options.calibration_file, pairs, out.results);
  }

  for (std::string& warning :
       replay_updates(reference, candidate, pairs, options.threads, work, hooks, out.results)) {
    out.warnings.push_back(std::move(warning));
  }
  out.interrupted = interruption_of(out.results);
  if (options.on_measured) options.on_measured({pairs, out.results});
  const std::size_t most_slices = options.all_slices ? std::numeric_limits<std::size_t>::max()
                                                     : verdict::SliceJudgement::kMostKept;
  judge_results(Tolerances(reference.manifest(), rules, out.results, most_slices), pairs,
                SummedGradients(reference, pairs), out.results);

  judge_gradient_norms(reference, candidate, pairs, out.results);
  judge_unplayed_updates(reference, candidate, pairs, options.threads, out.results);
  carry_parameters(candidate, pairs, options.threads, out.results);
  if (options.truth != nullptr) {
    const layout::MapRules map = options.map.value_or(layout::MapRules{});
    add_truth({*options.truth, sides.reference, sides.candidate, map.reference, pairs,
               options.threads, work, hooks},
              out);
  }

  const std::vector<verdict::Node> nodes = nodes_of(pairs, out.results);
  const std::vector<trace::Module> modules =
      layout::mapped_modules(options.map ? options.map->reference : std::vector<layout::MapRule>{},
                             reference.manifest().modules);
  const verdict::Dataflow flow = verdict::build_dataflow(nodes, modules);
  out.from_modules = flow.from_modules;
  explain_routing({reference, candidate, pairs, nodes, flow, modules, noise_source, rules,
                   most_slices, options.threads},
                  out);
  std::vector<Outcome> outcomes;
  for (const Result& result : out.results) outcomes.push_back(result.outcome);
  const verdict::Frontier frontier =
      verdict::find_frontier(nodes, flow, outcomes, equal_bits(out.results));
  out.downstream = frontier.downstream;
  out.suspects = suspects_of(nodes, flow, outcomes, frontier, out.results);
  out.settings = compare_settings(reference.manifest(), candidate.manifest(), options.selection,
                                  pairs, out.results);
  const std::vector<std::size_t> position = reorder(flow.topological_order, out.results);
  to_positions(position, out);
  out.findings = explain_findings({reference, candidate, pairs, modules, flow, position}, frontier,
                                  out.results);

  find_nearest_names(out.results);
  for (const Outcome outcome : verdict::kAllOutcomes) out.counts[outcome] = 0;
  for (const Result& result : out.results) ++out.counts[result.outcome];
  for (const std::string& reason : unique_reasons(out.results, Outcome::kUnreadable)) {
    if (std::find(out.warnings.begin(), out.warnings.end(), reason) == out.warnings.end()) {
      out.warnings.push_back(reason);
    }
  }
  decide({lost_reference.problems.size(), lost_candidate.problems.size(),
          is_same_run(reference, candidate)},
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
