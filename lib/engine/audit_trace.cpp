#include "engine/audit_trace.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <tuple>

#include "audit/after_backward.h"
#include "audit/agreement.h"
#include "audit/common_numbers.h"
#include "audit/expressions.h"
#include "audit/fits.h"
#include "audit/main_gradients.h"
#include "audit/skipped_steps.h"
#include "audit/step_coverage.h"
#include "audit/unused_parameters.h"
#include "audit/updates.h"
#include "base/text.h"
#include "comparison/local_files.h"
#include "comparison/run_facts.h"
#include "comparison/shown_precision.h"
#include "judge/calibration.h"
#include "localize/phase.h"

namespace ttrace::engine {
namespace {

using audit::AuditedTensor;
using trace::Kind;

// The state of one audit: the passes below, each working on the results of those before it.
class AuditRun {
 public:
  AuditRun(const trace::Source& run, const AuditOptions& options)
      : run_(run),
        options_(options),
        specification_(options.specification),
        division_(options.division) {
    division_.unit = audit::unit_of_audit;
  }

  audit::AuditReport run() {
    const auto started = std::chrono::steady_clock::now();
    check_trace();
    measure_itself();
    check_expressions();
    note_interruption();
    if (out_.interrupted || division_.part) {
      leave_rest();
    } else {
      check_after_backward();
      leave_what_lies_elsewhere();
    }
    reach_verdict();
    out_.environment.seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
    return std::move(out_);
  }

 private:
  void check_trace() {
    comparison::require_sound_layouts(run_);
    out_.run = comparison::facts_of(run_);
    out_.selection = options_.selection;
    out_.specification = options_.specification_file;
    lost_ = comparison::lost_ranks_of(run_);
    out_.warnings = lost_.problems;
    warn_of_rules();
    if (specification_ != nullptr) {
      audit::require_fits(run_, *specification_, options_.specification_file);
    }
  }

  // Says of every rule what it leaves out, and why.
  void warn_of_rules() {
    const judge::Policy& rules = options_.selection.rules;
    std::vector<std::uint64_t> left_out(rules.size(), 0);
    for (const trace::TensorEntry& entry : run_.manifest().tensors) {
      if (const auto number = judge::rule_for(rules, entry.key)) ++left_out[*number];
    }
    for (std::size_t i = 0; i < rules.size(); ++i) {
      const std::string name = base::concat(options_.rules_file, ": rule ", i);
      if (rules[i].skip.empty()) {
        out_.warnings.push_back(base::concat(
            name, " has no effect: audit skips by rules, and this one skips nothing today"));
      } else if (left_out[i] == 0) {
        out_.warnings.push_back(base::concat(name, " is the first for no tensor"));
      } else {
        out_.warnings.push_back(base::concat(
            name, " leaves out ", base::plural(left_out[i], "tensor"), ": ", rules[i].skip));
      }
    }
  }

  // Checks replicas and finite values, and replays updates.
  void measure_itself() {
    const auto records =
        audit::measure_itself(run_, options_.selection, specification_, options_.execution,
                              options_.work, division_, options_.stop);
    const tensor::DType coarsest =
        comparison::coarsest_stored(run_.manifest()).value_or(tensor::DType::kFloat64);
    for (const comparison::TensorComparison& record : records) {
      const bool left_undone = record.skipped == comparison::SkippedFor::kInterruption;
      if (record.outcome == judge::Outcome::kSkippedByRule && !left_undone) continue;
      out_.tensors.push_back(audit::audited(record, coarsest));
      if (!record.comparison) continue;
      const measure::Measurement& measured = record.comparison->measurement;
      norms_.emplace(record.key, measure::candidate_norm(measured.total));
      out_.environment.bytes_read += measured.bytes_read;
    }
    audit::check_moments(run_.manifest(), out_.tensors);
    if (specification_ != nullptr) {
      audit::check_groups(*specification_, run_.manifest(), out_.tensors);
    }
    std::map<std::string, const trace::Module*> modules;
    for (const trace::Module& module : run_.manifest().modules) {
      modules.emplace(module.name, &module);
    }
    for (AuditedTensor& tensor : out_.tensors) {
      const auto module = modules.find(tensor.key.name.substr(0, tensor.key.name.find('[')));
      if (module == modules.end()) continue;
      tensor.class_name = module->second->class_name;
      tensor.called_at = module->second->called_at;
    }
    order_by_step();
  }

  // Sorts tensors as the step computes them: parameters and inputs, forward, backward, updates;
  // within these by the specification, so that the first broken tensor is the first that went
  // wrong.
  void order_by_step() {
    const auto place = [this](const AuditedTensor& tensor) {
      const auto number = specification_ != nullptr ? specification_->find(tensor.key)
                                                    : std::optional<std::size_t>();
      return std::tuple(tensor.key.step, localize::phase_of(tensor.key),
                        tensor.key.microbatch.value_or(0), !number, number.value_or(0), tensor.key);
    };
    std::vector<std::pair<decltype(place(std::declval<AuditedTensor>())), std::size_t>> places;
    for (std::size_t i = 0; i < out_.tensors.size(); ++i) {
      places.emplace_back(place(out_.tensors[i]), i);
    }
    std::sort(places.begin(), places.end());
    std::vector<AuditedTensor> ordered;
    for (const auto& [key, i] : places) ordered.push_back(std::move(out_.tensors[i]));
    out_.tensors = std::move(ordered);
  }

  void check_expressions() {
    if (specification_ == nullptr) {
      mark_without_specification();
      return;
    }
    judged_ = audit::check_expressions(
        {run_, *specification_, options_.specification_file, options_.execution,
         options_.exact ? specification::Products::kExact : specification::Products::kProbed,
         specification_->bytes, options_.work, division_, options_.stop},
        out_.tensors);
  }

  void mark_without_specification() {
    for (AuditedTensor& tensor : out_.tensors) {
      if (tensor.unreadable || tensor.left_undone) continue;
      switch (tensor.key.kind) {
        case Kind::kInput:
        case Kind::kOutput:
        case Kind::kLoss:
        case Kind::kGradOutput:
        case Kind::kGradInput:
        case Kind::kParamGrad:
          if (tensor.reason.empty()) {
            tensor.reason = "only a specification says what it follows from (--specification)";
          }
          break;
        case Kind::kMainGrad:
        case Kind::kGradNorm:
        case Kind::kParamAfterStep:
          break;
        default:
          tensor.outcome = audit::AuditOutcome::kGiven;
      }
    }
  }

  void note_interruption() {
    answer::Interruption found{0, out_.tensors.size()};
    for (const AuditedTensor& tensor : out_.tensors) found.measured += tensor.left_undone ? 0 : 1;
    found.missing = comparison::missing_in_merge(division_, found.measured < found.of);
    if (found.measured < found.of || !found.missing.empty()) out_.interrupted = std::move(found);
  }

  // Leaves the checks that need more than a share: other micro-batches, all gradients, the step
  // before.
  void leave_rest() {
    if (division_.part) out_.part = comparison::PartOfWork{*division_.part, false, {}, {}};
    audit::leave_after_backward(division_.part.has_value(), out_.tensors);
  }

  void check_after_backward() {
    if (specification_ != nullptr) {
      audit::check_common_numbers(run_, *specification_, out_.tensors);
    }
    audit::check_factors(run_, specification_, out_.tensors);
    std::optional<std::set<std::string>> trained;
    if (specification_ != nullptr) {
      trained.emplace();
      for (const specification::SpecifiedTensor& tensor : specification_->tensors) {
        if (tensor.kind == Kind::kParamGrad) trained->insert(tensor.name);
      }
    }
    if (trained) {
      audit::check_unused_parameters(run_, *specification_, *trained, options_.execution,
                                     out_.tensors);
    }
    const audit::MeasuredRun measured{run_, options_.execution, norms_, trained, specification_};
    audit::check_main_gradients(measured, out_.tensors);
    audit::check_gradient_norms(measured, out_.tensors);
    audit::check_steps(measured, out_.tensors);
    if (trained) {
      audit::check_untrained_parameters(run_, *specification_, *trained, out_.tensors);
    }
  }

  // What only the merge can check, and what it cannot since its machine lacks the files.
  void leave_what_lies_elsewhere() {
    if (!division_.had) return;
    for (AuditedTensor& tensor : out_.tensors) {
      if (comparison::needs_another_machine(tensor.reason)) tensor.left_undone = true;
    }
    note_interruption();
  }

  void reach_verdict() {
    comparison::set_execution(options_.execution, out_.environment);
    audit::mark_overflows(run_.manifest(), out_.tensors);
    audit::settle_outcomes(out_.tensors);
    if (!options_.selection.selects_all()) out_.selected_of = run_.manifest().tensors.size();
    if (specification_ != nullptr && !division_.part) {
      out_.coverage.step = audit::cover_step(*specification_, run_.manifest(), options_.selection,
                                             out_.tensors, judged_);
    }
    if (!division_.part && !out_.interrupted) {
      out_.coverage.updates =
          audit::audited_updates(run_, specification_, options_.selection, out_.tensors);
    }
    audit::reach_verdict(lost_.unreadable.size(), run_.manifest(), out_);
  }

  const trace::Source& run_;
  const AuditOptions& options_;
  const specification::Specification* specification_;
  comparison::WorkDivision division_;
  comparison::LostRanks lost_;
  std::map<trace::TensorKey, double> norms_;  // of the tensors that could be read
  audit::JudgedValues judged_;
  audit::AuditReport out_;
};

}  // namespace

audit::AuditReport audit_trace(const trace::Source& run, const AuditOptions& options) {
  return AuditRun(run, options).run();
}

}  // namespace ttrace::engine
