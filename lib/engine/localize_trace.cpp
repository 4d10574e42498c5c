#include "engine/localize_trace.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <set>

#include "audit/broken_by_reference.h"
#include "audit/consequences.h"
#include "audit/fits.h"
#include "audit/renamed.h"
#include "base/error.h"
#include "base/text.h"
#include "comparison/run_facts.h"
#include "engine/local_checks.h"
#include "localize/isolation_plan.h"

namespace ttrace::engine {
namespace {

using audit::AuditedTensor;
using audit::AuditOutcome;
using trace::Kind;

// "8 ranks, run 3f2a, 1234 bytes, manifest 0123456789abcdef, content 0123456789abcdef"
std::string describe_identity(const answer::TraceFacts& facts) {
  return base::concat(base::plural(facts.ranks, "rank"), facts.run_id.empty() ? "" : ", run ",
                      base::printable(facts.run_id), ", ", facts.fingerprint.bytes,
                      " bytes, manifest ", base::printable(facts.fingerprint.manifest),
                      ", content ", base::printable(facts.fingerprint.content));
}

// Path and time may differ: a report and its traces may have been moved or copied.
void require_same_trace(const std::string& report, const char* role,
                        const answer::TraceFacts& reported, const answer::TraceFacts& found) {
  constexpr const char* kWayOut = "; leave --report out to compare again";
  if (reported.fingerprint.content.empty() && !found.fingerprint.manifest.empty()) {
    throw base::input_error(report, ": does not say which ", role, " it compared", kWayOut);
  }
  if (reported.ranks == found.ranks && reported.steps == found.steps &&
      reported.precision == found.precision && reported.run_id == found.run_id &&
      reported.fingerprint.is_of_same_trace(found.fingerprint)) {
    return;
  }
  throw base::input_error(report, ": the report is of other traces: the ", role,
                          " that it compared (", base::printable(reported.path), ") had ",
                          describe_identity(reported), ", ", found.path, " has ",
                          describe_identity(found), kWayOut);
}

class LocalizeRun {
 public:
  LocalizeRun(const trace::Source& reference, const trace::Source& candidate,
              localize::ReportedComparison compared, const LocalizeOptions& options)
      : options_(options),
        reference_(reference),
        candidate_(candidate),
        reference_checks_(reference, options, comparison::WorkOf::kReference),
        candidate_checks_(candidate, options, comparison::WorkOf::kCandidate),
        is_part_(compared.part || options.division.part) {
    out_.comparison = std::move(compared);
    out_.unfinished = options.unfinished;
    out_.warnings = out_.comparison.warnings;
    out_.specification = options.specification_file;
  }

  localize::LocalizeReport run() {
    const auto started = std::chrono::steady_clock::now();
    take_over(reference_, "reference", out_.comparison.reference);
    take_over(candidate_, "candidate", out_.comparison.candidate);
    require_same_plan();
    const bool has_other_names = options_.map != nullptr && !options_.map->candidate.empty();
    if (has_other_names && options_.candidate_specification != nullptr) {
      audit::require_fits(candidate_, *options_.candidate_specification,
                          options_.candidate_specification_file);
    } else if (options_.specification != nullptr) {
      audit::require_fits(candidate_, *options_.specification, options_.specification_file);
    }
    for (const trace::Module& module : candidate_.manifest().modules) {
      classes_.emplace(module.name, module.class_name);
    }
    for (const trace::Module& module : reference_.manifest().modules) {
      classes_.emplace(module.name, module.class_name);
    }
    judge_modules();
    explain_findings();
    if (!is_part_) explain_the_rest();
    comparison::set_execution(options_.execution, out_.environment);
    out_.environment.seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
    return std::move(out_);
  }

 private:
  void explain_the_rest() {
    compare_code();
    if (options_.specification != nullptr) {
      audit::set_consequences_apart(*options_.specification, candidate_.manifest(),
                                    candidate_checks_.all(), out_);
    }
    explain_suspects();
    sum_up_layers();
    judge_isolated_modules();
    make_plan();
  }

  // Replaces the facts of the report by those of the trace that was given, if it is the same one.
  void take_over(const trace::Source& run, const char* role, answer::TraceFacts& reported) {
    answer::TraceFacts facts = comparison::facts_of(run);
    require_same_trace(out_.comparison.file, role, reported, facts);
    reported = std::move(facts);
  }

  // If the runs had different plans, or only one had a plan, modules received different tensors.
  void require_same_plan() const {
    const auto& of_reference = reference_.manifest().run.plan;
    const auto& of_candidate = candidate_.manifest().run.plan;
    if (of_reference == of_candidate) return;
    const auto describe = [](const trace::Source& run) {
      const auto& plan = run.manifest().run.plan;
      return base::concat(run.path(), plan ? " was rewritten by the plan " : " was not rewritten",
                          plan ? plan->digest.substr(0, 12) : "");
    };
    throw base::input_error(describe(candidate_), ", ", describe(reference_),
                            "; run both with the same TTRACE_PLAN, or both without one");
  }

  void compare_code() {
    if (options_.specification == nullptr || options_.candidate_specification == nullptr) return;
    const layout::MapRules map = options_.map != nullptr ? *options_.map : layout::MapRules{};
    const audit::RenamedSpecification reference =
        audit::renamed(*options_.specification, options_.specification_file, map.reference);
    const audit::RenamedSpecification candidate = audit::renamed(
        *options_.candidate_specification, options_.candidate_specification_file, map.candidate);
    out_.code = specification::compare_specifications(
        reference.specification, options_.specification_file, candidate.specification,
        options_.candidate_specification_file);
    if (const std::uint64_t left = reference.left + candidate.left; left > 0) {
      out_.warnings.push_back(base::concat(
          map.file, ": ", base::plural(left, "tensor"),
          " of the specifications keep their names, since the map does more than rename them"));
    }
    out_.candidate_specification = options_.candidate_specification_file;
    out_.warnings.insert(out_.warnings.end(), out_.code->warnings.begin(),
                         out_.code->warnings.end());
  }

  void judge_isolated_modules() {
    const auto& plan = candidate_.manifest().run.plan;
    if (!plan) return;
    out_.plan_digest = plan->digest;
    out_.isolated =
        localize::judge_isolated(reference_.manifest(), candidate_.manifest(), out_.comparison);
  }

  void make_plan() {
    if (options_.plan_file.empty()) return;
    if (reference_.manifest().run.plan) {
      throw base::usage_error(
          "--plan: these runs were rewritten by a plan already; make one from runs without");
    }
    std::set<std::string> modules = layers_;
    // A second bug may hide behind the first one, so modules downstream are isolated too.
    if (layers_.empty()) {
      for (const trace::TensorKey& key : out_.comparison.bad) {
        modules.insert(trace::module_of(key));
      }
      for (const answer::Suspect& suspect : out_.comparison.suspects) {
        modules.insert(trace::module_of(suspect.key));
      }
    }
    modules.erase(std::string(trace::kWholeModel));
    out_.written_plan = {options_.plan_file,
                         localize::isolation_plan(reference_, candidate_, modules)};
  }

  std::string class_of(const std::string& module) const {
    const auto found = classes_.find(module);
    return found == classes_.end() ? "" : found->second;
  }

  // Judges the modules of all findings and suspects, and those that the user asked for. Modules
  // with broken checks are judged in the reference too.
  void judge_modules() {
    std::set<std::string> modules = layers_to_check();
    layers_ = modules;
    for (const localize::LocalizedFinding& finding : out_.comparison.findings) {
      if (finding.shown) modules.insert(trace::module_of(*finding.shown));
      if (options_.specification == nullptr) continue;
      for (const trace::TensorKey& key : finding.keys) modules.insert(trace::module_of(key));
    }
    for (const answer::Suspect& suspect : out_.comparison.suspects) {
      modules.insert(trace::module_of(suspect.key));
    }
    // Only the whole comparison says which modules there are to judge.
    if (out_.comparison.part) return;
    candidate_checks_.check(modules, options_.division);
    note_what_is_left(candidate_checks_);
    if (is_part_) return;
    std::set<std::string> broken;
    for (const std::string& module : modules) {
      if (is_broken(candidate_checks_.of(module, nullptr))) broken.insert(module);
    }
    reference_checks_.check(broken, {});
    note_what_is_left(reference_checks_);
  }

  void note_what_is_left(const LocalChecks& checks) {
    const auto left = checks.interruption();
    if (left && out_.unfinished.empty()) out_.unfinished = left->describe();
  }

  std::set<std::string> layers_to_check() const {
    std::set<std::string> modules;
    for (const trace::TensorEntry& entry : candidate_.manifest().tensors) {
      modules.insert(trace::module_of(entry.key));
    }
    if (options_.all_layers) return modules;
    std::set<std::string> wanted;
    for (const std::string& pattern : options_.layers) {
      const std::size_t before = wanted.size();
      for (const std::string& module : modules) {
        if (base::glob_match(pattern, module)) wanted.insert(module);
      }
      if (wanted.size() == before) {
        throw base::usage_error("--layer ", pattern, " matches no module of ", candidate_.path(),
                                base::nearest_hint(pattern, {modules.begin(), modules.end()}));
      }
    }
    return wanted;
  }

  std::vector<AuditedTensor> local_of(const std::string& module, const trace::TensorKey* like) {
    std::vector<AuditedTensor> local = candidate_checks_.of(module, like);
    if (is_broken(local)) {
      audit::discount_what_the_reference_breaks(reference_checks_.of(module, like), local);
    }
    return local;
  }

  static bool is_broken(const std::vector<AuditedTensor>& local) {
    return std::any_of(local.begin(), local.end(), [](const AuditedTensor& tensor) {
      return tensor.outcome == AuditOutcome::kBroken;
    });
  }

  void count_not_replayable(const std::string& module, const std::vector<AuditedTensor>& local) {
    const std::string of_class = class_of(module);
    for (const AuditedTensor& tensor : local) {
      if (tensor.outcome == AuditOutcome::kNotJudged ||
          tensor.outcome == AuditOutcome::kBelowBound) {
        ++out_.not_replayable[of_class.empty() ? module : of_class];
      }
    }
  }

  void explain_findings() {
    for (const localize::LocalizedFinding& reported : out_.comparison.findings) {
      localize::LocalizedFinding finding = reported;
      if (finding.shown) {
        finding.module = trace::module_of(*finding.shown);
        if (!is_part_) {
          finding.local = local_of(finding.module, &*finding.shown);
          count_not_replayable(finding.module, finding.local);
          finding.here = is_broken(finding.local);
        }
        finding.summary = is_part_ ? "left to `ttrace report merge` of all parts"
                                   : localize::describe_local(finding.local);
      }
      finding.after_right_values = !finding.depends_on.empty() && wrong_before(finding) == 0;
      finding.upstream = is_part_ ? "left to the merge" : describe_upstream(finding);
      finding.next = describe_next(finding);
      out_.findings.push_back(std::move(finding));
    }
  }

  // Counts the tensors that it was computed from and that do not match.
  std::uint64_t wrong_before(const localize::LocalizedFinding& finding) const {
    std::uint64_t bad = 0;
    for (const std::string& id : finding.depends_on) {
      bad += out_.comparison.outcomes.contains(id) ? 1 : 0;
    }
    return bad;
  }

  std::string describe_upstream(const localize::LocalizedFinding& finding) const {
    if (finding.depends_on.empty()) return "nothing recorded";
    const std::uint64_t bad = wrong_before(finding);
    const std::string tensors = base::plural(finding.depends_on.size(), "tensor");
    if (bad == 0) return base::concat("the ", tensors, " that it was computed from match");
    return base::concat(bad, " of the ", tensors, " that it was computed from do not match");
  }

  std::string describe_next(const localize::LocalizedFinding& finding) const {
    if (!finding.shown) return "set the optimizer as in the reference";
    const std::string inspect =
        base::concat("ttrace inspect ", options_.run_argument, " '", finding.module, "*'");
    if (options_.specification == nullptr) {
      return base::concat("give --specification to judge the module by its own inputs; ", inspect);
    }
    return inspect;
  }

  void explain_suspects() {
    for (const answer::Suspect& reported : out_.comparison.suspects) {
      localize::LocalizedSuspect suspect{reported, false, ""};
      const std::vector<AuditedTensor> local =
          local_of(trace::module_of(reported.key), &reported.key);
      suspect.here = is_broken(local);
      suspect.summary = localize::describe_local(local);
      out_.suspects.push_back(std::move(suspect));
    }
  }

  void sum_up_layers() {
    for (const std::string& module : layers_) {
      localize::LayerSummary layer;
      layer.module = module;
      layer.class_name = class_of(module);
      for (AuditedTensor& tensor : local_of(module, nullptr)) {
        if (tensor.outcome == AuditOutcome::kGiven ||
            tensor.outcome == AuditOutcome::kZeroWithinRounding) {
          continue;
        }
        if (!tensor.judged()) {
          ++layer.not_judged;
          continue;
        }
        ++layer.judged;
        if (tensor.outcome == AuditOutcome::kBroken) {
          layer.broken.push_back(std::move(tensor));
          continue;
        }
        for (const audit::AuditCheck& check : tensor.checks) {
          if (check.result != audit::CheckResult::kConsistent) continue;
          layer.worst_share = std::max(layer.worst_share, check.share());
        }
      }
      out_.layers.push_back(std::move(layer));
    }
  }

  const LocalizeOptions& options_;
  const trace::Source& reference_;
  const trace::Source& candidate_;
  std::map<std::string, std::string> classes_;  // by module
  std::set<std::string> layers_;                // that the user asked for
  LocalChecks reference_checks_;
  LocalChecks candidate_checks_;
  bool is_part_;
  localize::LocalizeReport out_;
};

}  // namespace

localize::LocalizeReport localize_trace(const trace::Source& reference,
                                        const trace::Source& candidate,
                                        localize::ReportedComparison compared,
                                        const LocalizeOptions& options) {
  return LocalizeRun(reference, candidate, std::move(compared), options).run();
}

}  // namespace ttrace::engine
