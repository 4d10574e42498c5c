#include "engine/compare_traces.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <set>

#include "audit/recording_line.h"
#include "base/error.h"
#include "comparison/accumulation_error.h"
#include "comparison/judge_pairs.h"
#include "comparison/local_files.h"
#include "comparison/lonely_noise.h"
#include "comparison/measure_pairs.h"
#include "comparison/noise_runs.h"
#include "comparison/other_implementation.h"
#include "comparison/padding.h"
#include "comparison/pairing.h"
#include "comparison/result.h"
#include "comparison/run_facts.h"
#include "comparison/selection.h"
#include "comparison/shown_precision.h"
#include "comparison/stored_before.h"
#include "comparison/verdict.h"
#include "engine/follow_layouts.h"
#include "layout/map_apply.h"
#include "localize/explain.h"
#include "localize/frontier.h"
#include "localize/growth_without_noise.h"
#include "localize/microbatch_mismatch.h"
#include "localize/one_sided.h"
#include "localize/other_start.h"
#include "localize/second_suspects.h"
#include "localize/swapped_runs.h"
#include "optimizer/gradient_norm.h"
#include "optimizer/masters.h"
#include "optimizer/replay_updates.h"
#include "optimizer/settings.h"
#include "optimizer/updates_without_replay.h"
#include "routing/kinks.h"
#include "routing/routing_flips.h"
#include "routing/without_rows.h"

namespace ttrace::engine {
namespace {

using comparison::TensorComparison;
using judge::Outcome;

// The state of one comparison: the passes below, each working on the results of those before it.
class CompareRun {
 public:
  CompareRun(const trace::Source& reference, const trace::Source& candidate,
             const std::vector<const trace::Source*>& noise, const CompareOptions& options)
      : reference_(reference),
        candidate_(candidate),
        noise_runs_(noise),
        options_(options),
        rules_(options.calibration != nullptr ? options.calibration->rules : no_rules_),
        noise_(reference.manifest(), options.calibration, *options.execution.backend),
        work_(options.work != nullptr ? *options.work : nothing_known_),
        hooks_{nullptr, options.progress, options.stop} {}

  comparison::CompareReport run() {
    const auto started = std::chrono::steady_clock::now();
    check_traces();
    pair_tensors();
    describe_runs();
    judge_by_manifests();
    measure();
    judge_measurements();
    follow_data_flow();
    find_divergences();
    sum_up();
    out_.environment.seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
    return std::move(out_);
  }

 private:
  void warn(std::vector<std::string> warnings) {
    for (std::string& warning : warnings) out_.warnings.push_back(std::move(warning));
  }

  void check_traces() {
    comparison::require_sound_layouts(reference_);
    comparison::require_sound_layouts(candidate_);
    for (const trace::Source* run : noise_runs_) comparison::require_sound_layouts(*run);
    has_noise_ = !noise_runs_.empty();
    comparison::NoiseRuns checked =
        comparison::check_noise_runs(reference_, candidate_, noise_runs_);
    warn(std::move(checked.warnings));
    noise_runs_ = std::move(checked.runs);
  }

  // Also applies the map, which renames tensors and drops some.
  void pair_tensors() {
    const layout::MapRules map = options_.map.value_or(layout::MapRules{});
    const auto mapped = [&](const trace::Source& source, const std::vector<layout::MapRule>& rules,
                            comparison::DroppedKeys* dropped) {
      layout::Mapped tensors =
          layout::apply_map(rules, map.file, comparison::tensors_of(source.manifest()));
      warn(std::move(tensors.warnings));
      if (dropped != nullptr) *dropped = std::move(tensors.dropped);
      return comparison::Side{&source, std::move(tensors.tensors)};
    };
    comparison::DroppedKeys dropped_of_reference;
    comparison::DroppedKeys dropped_of_candidate;
    const comparison::Side reference = mapped(reference_, map.reference, &dropped_of_reference);
    const comparison::Side candidate = mapped(candidate_, map.candidate, &dropped_of_candidate);
    std::vector<comparison::Side> noise;
    for (const trace::Source* run : noise_runs_) {
      noise.push_back(mapped(*run, map.reference, nullptr));
    }
    out_.map_rules = map.file;
    pairs_ = comparison::pair_traces(reference, candidate, noise);
    modules_ = layout::mapped_modules(map.reference, reference_.manifest().modules);
    padding_ = comparison::trim_padding(reference_, candidate_, modules_, pairs_);
    warn(padding_.told);
    comparison::mark_dropped(dropped_of_reference, dropped_of_candidate, pairs_, out_);
    warn(comparison::limit_computed_in(candidate_.manifest(), candidate_.path(), pairs_));
    if (options_.selection.selects_all()) return;
    std::vector<trace::TensorKey> keys;
    for (const comparison::Pair& pair : pairs_) keys.push_back(pair.key);
    comparison::require_matches(options_.selection, keys);
  }

  void describe_runs() {
    out_.reference = comparison::facts_of(reference_);
    out_.candidate = comparison::facts_of(candidate_);
    out_.selection = options_.selection;
    out_.common = options_.common;
    out_.kinds_in_neither =
        comparison::kinds_in_neither(reference_.manifest(), candidate_.manifest());
    out_.left_out_by_both =
        comparison::left_out_by_both(reference_.manifest(), candidate_.manifest());
    out_.skipped_steps =
        comparison::steps_skipped_in_both(reference_.manifest(), candidate_.manifest());
    for (const trace::Source* run : noise_runs_) out_.noise_runs.push_back(run->path());
    warn(comparison::run_warnings(reference_, candidate_, noise_runs_));
    if (options_.calibration == nullptr) return;
    out_.tolerance_file = options_.calibration_file;
    if (!has_noise_) out_.noise_runs = options_.calibration->runs;
    warn(comparison::calibration_warnings(reference_.manifest(), *options_.calibration,
                                          options_.calibration_file));
    warn(comparison::rule_warnings(rules_, options_.calibration_file, pairs_, options_.today));
  }

  void judge_by_manifests() {
    lost_in_reference_ = comparison::lost_ranks_of(reference_);
    lost_in_candidate_ = comparison::lost_ranks_of(candidate_);
    // Warnings of lost ranks come before all others.
    for (const auto* lost : {&lost_in_reference_, &lost_in_candidate_}) {
      out_.warnings.insert(out_.warnings.begin(), lost->problems.begin(), lost->problems.end());
    }
    out_.results = comparison::initial_results(
        {reference_, candidate_, options_.selection, rules_, options_.today,
         lost_in_reference_.text, lost_in_candidate_.text,
         comparison::absences_of(reference_, lost_in_reference_),
         comparison::absences_of(candidate_, lost_in_candidate_), options_.common},
        std::move(pairs_));
    comparison::mark_other_implementations(reference_.manifest(), candidate_.manifest(),
                                           out_.results);
    for (TensorComparison& result : out_.results) {
      const auto padded = padding_.refused.find(result.key);
      if (padded == padding_.refused.end()) continue;
      if (result.outcome == Outcome::kIncomparable) result.reason = padded->second.told;
    }
    if (options_.common) out_.left_out = comparison::left_out_of(out_.results);
    out_.late_start =
        comparison::mark_stored_before(reference_.manifest(), candidate_.manifest(), out_.results);
  }

  // The long part: everything that reads the tensors from end to end.
  void measure() {
    comparison::prepare_work(options_.division, reference_, candidate_, work_, out_.results);
    if (work_.is_recorded()) {
      hooks_.finished = [this](std::size_t i) {
        comparison::record_measurement(work_, out_.results[i]);
      };
    }
    comparison::measure_pairs({reference_, candidate_, noise_}, options_.execution, out_.results,
                              hooks_);
    comparison::mark_unmeasured(out_.results);
    comparison::check_measured_noise(reference_, out_.results);
    if (options_.calibration != nullptr) {
      comparison::check_calibrated_parameters(reference_.manifest(), *options_.calibration,
                                              options_.calibration_file, out_.results);
    }
    warn(optimizer::replay_updates(reference_, candidate_,
                                   optimizer::rewritten_in(reference_.manifest()),
                                   options_.execution, work_, hooks_, out_.results)
             .warnings);
    warn(
        optimizer::judge_masters(reference_, candidate_, options_.execution, hooks_, out_.results));
    const bool any_left =
        std::any_of(out_.results.begin(), out_.results.end(), [](const TensorComparison& result) {
          return result.skipped == comparison::SkippedFor::kInterruption;
        });
    out_.interrupted = comparison::interruption_of(
        out_.results, comparison::missing_in_merge(options_.division, any_left));
    if (options_.on_measured) options_.on_measured(out_.results);
  }

  void judge_measurements() {
    warn(comparison::judge_lonely_noise_by_neighbours(out_.results));
    comparison::judge_results(
        comparison::Tolerances(reference_.manifest(), rules_, out_.results, most_slices()),
        comparison::AccumulationError(reference_, out_.results, *options_.execution.backend),
        out_.results);
    optimizer::judge_gradient_norms(reference_, candidate_, out_.results);
    optimizer::judge_updates_without_replay(reference_, candidate_, options_.execution,
                                            out_.results);
  }

  std::size_t most_slices() const {
    return options_.all_slices ? std::numeric_limits<std::size_t>::max()
                               : judge::SliceJudgement::kMostKept;
  }

  void follow_data_flow() {
    nodes_ = localize::nodes_of(out_.results);
    flow_ = localize::build_dataflow(nodes_, modules_);
    localize::order_by_data_flow(out_.results, nodes_, flow_);
    out_.from_modules = flow_.from_modules;
    const routing::RoutingInput input{reference_, candidate_,    nodes_,
                                      flow_,      modules_,      noise_,
                                      rules_,     most_slices(), options_.execution};
    routing::leave_out_rows_without_gradient(input, out_);
    routing::explain_routing(input, out_);
    routing::explain_kinks({reference_, candidate_, nodes_, flow_}, out_);
    if (localize::convolves(reference_.manifest())) localize::leave_growth_unjudged(flow_, out_);
  }

  void find_divergences() {
    std::vector<Outcome> outcomes;
    for (const TensorComparison& result : out_.results) outcomes.push_back(result.outcome);
    std::vector<bool> padded;
    for (const TensorComparison& result : out_.results) {
      padded.push_back(padding_.refused.contains(result.key));
    }
    localize::Frontier frontier = localize::find_frontier(
        nodes_, flow_, outcomes, localize::equal_bits(out_.results), padded);
    out_.suspects = localize::suspects_of(nodes_, flow_, frontier, out_.results);
    out_.settings = optimizer::compare_settings(reference_.manifest(), candidate_.manifest(),
                                                options_.selection, out_.results);
    leave_to_settings(frontier);
    out_.downstream = frontier.downstream;
    out_.findings = localize::explain_findings(
        {reference_, candidate_, out_.results, modules_, flow_, *options_.execution.backend},
        frontier);
    explain_padding();
    forget_layouts_that_reach_further();
    audit::add_recording_lines(reference_.manifest(), candidate_.manifest(), out_.results,
                               out_.findings);
    if (!out_.findings.empty()) {
      out_.microbatches = localize::find_microbatch_mismatch(
          reference_, candidate_, *options_.execution.backend, out_.results);
    }
    if (!out_.findings.empty()) {
      out_.swapped = localize::find_swapped_runs(
          reference_, candidate_, *options_.execution.backend, out_.results, out_.findings);
    }
    if (!out_.microbatches) {
      out_.other_start = localize::find_other_start(out_.results, out_.findings);
    }
    localize::find_nearest_names(out_.results);
  }

  // What follows from a setting that is listed is no finding of its own.
  void leave_to_settings(localize::Frontier& frontier) {
    std::set<std::size_t> followers;
    for (const comparison::SettingDifference& setting : out_.settings) {
      for (const std::size_t i : setting.updates) {
        if (out_.results[i].by_setting) followers.insert(i);
      }
    }
    frontier.downstream +=
        std::erase_if(frontier.findings, [&](const comparison::ComparedFinding& finding) {
          if (is_state_of_no_group(finding)) return true;
          return finding.members.size() <= 1 && followers.contains(finding.result);
        });
  }

  // Whether it is about states that one side lacks of parameters that its optimizer does not have.
  bool is_state_of_no_group(const comparison::ComparedFinding& finding) const {
    std::vector<std::size_t> members = finding.members;
    members.push_back(finding.result);
    return std::ranges::all_of(members, [this](std::size_t member) {
      const comparison::TensorComparison& state = out_.results[member];
      if (state.key.kind != trace::Kind::kOptimizerState) return false;
      if (state.outcome != judge::Outcome::kMissing && state.outcome != judge::Outcome::kExtra) {
        return false;
      }
      const std::string parameter = state.key.name.substr(0, state.key.name.rfind('.'));
      return std::ranges::any_of(out_.settings, [&](const comparison::SettingDifference& setting) {
        return setting.name == comparison::kParameterGroup && setting.step == state.key.step &&
               std::ranges::binary_search(setting.parameters, parameter);
      });
    });
  }

  void explain_padding() {
    for (comparison::ComparedFinding& finding : out_.findings) {
      const auto padded = padding_.refused.find(out_.results[finding.result].key);
      if (padded == padding_.refused.end()) continue;
      const std::string& told = padded->second.told;
      finding.causes = {{std::string(padded->second.cause), "", told, 0, {{"told", told}}}};
      if (&finding == &out_.findings.front()) out_.padding = told;
    }
  }

  // If values really lie in another order, all tensors computed from them are wrong; if only the
  // manifest declares it wrongly, some match. If all are wrong, a fitting layout is not followed.
  void forget_layouts_that_reach_further() {
    for (comparison::ComparedFinding& finding : out_.findings) {
      if (out_.results[finding.result].outcome == Outcome::kIncomparable) continue;
      bool any = false;
      bool any_matches = false;
      for (std::size_t i = 0; i < nodes_.size(); ++i) {
        const auto& needs = flow_.depends_on[i];
        if (std::find(needs.begin(), needs.end(), finding.result) == needs.end()) continue;
        any = true;
        any_matches = any_matches || out_.results[i].outcome == Outcome::kMatch;
      }
      if (!any || any_matches) continue;
      for (answer::Cause& cause : finding.causes) cause.fits = nullptr;
    }
  }

  void sum_up() {
    for (const Outcome outcome : judge::kAllOutcomes) out_.counts[outcome] = 0;
    std::set<std::string> known(out_.warnings.begin(), out_.warnings.end());
    for (const TensorComparison& result : out_.results) {
      ++out_.counts[result.outcome];
      if (result.comparison) {
        out_.environment.bytes_read += result.comparison->measurement.bytes_read;
      }
      if (result.outcome == Outcome::kUnreadable && known.insert(result.reason).second) {
        out_.warnings.push_back(result.reason);
      }
    }
    comparison::set_execution(options_.execution, out_.environment);
    // A user who selects tensors knows that they are not a whole training step.
    const bool whole = options_.selection.selects_all();
    comparison::decide(
        {lost_in_reference_.unreadable.size(), lost_in_candidate_.unreadable.size(),
         comparison::is_same_run(reference_, candidate_),
         whole ? comparison::unrecorded_main_gradients(reference_.manifest(), candidate_.manifest())
               : "",
         padding_.in_doubt},
        out_);
  }

  const trace::Source& reference_;
  const trace::Source& candidate_;
  std::vector<const trace::Source*> noise_runs_;  // after check_traces(): each once
  bool has_noise_ = false;
  const CompareOptions& options_;
  const judge::Policy no_rules_;
  const judge::Policy& rules_;
  const comparison::NoiseSource noise_;
  comparison::Checkpoint nothing_known_;
  comparison::Checkpoint& work_;
  comparison::WorkHooks hooks_;
  comparison::Padding padding_;

  std::vector<comparison::Pair> pairs_;  // until judge_by_manifests() makes records of them
  comparison::LostRanks lost_in_reference_;
  comparison::LostRanks lost_in_candidate_;
  std::vector<trace::Module> modules_;
  std::vector<localize::FlowNode> nodes_;  // after follow_data_flow(): node i is result i
  localize::Dataflow flow_;
  comparison::CompareReport out_;
};

}  // namespace

comparison::CompareReport compare_traces(const trace::Source& reference,
                                         const trace::Source& candidate,
                                         const std::vector<const trace::Source*>& noise,
                                         const CompareOptions& options) {
  comparison::CompareReport report = CompareRun(reference, candidate, noise, options).run();
  if (report.part || report.interrupted) return report;
  // Earlier measurements, and those of other processes, were made under the declared layouts.
  CompareOptions again = options;
  again.work = nullptr;
  again.division = {};
  return follow_layouts(std::move(report), candidate, [&](const trace::Source& relaid) {
    return CompareRun(reference, relaid, noise, again).run();
  });
}

}  // namespace ttrace::engine
