#include "audit/expressions.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "audit/agreement.h"
#include "audit/explain_mismatch.h"
#include "audit/finished_judgement.h"
#include "audit/read_numbers.h"
#include "audit/recording_line.h"
#include "audit/rows_that_stand_out.h"
#include "audit/skipped_steps.h"
#include "audit/specified_run.h"
#include "audit/update_formulas.h"
#include "base/bytes.h"
#include "base/error.h"
#include "base/message.h"
#include "base/text.h"
#include "comparison/local_files.h"
#include "specification/describe.h"
#include "specification/evaluate/evaluate.h"
#include "specification/evaluate/narrow_factors.h"
#include "specification/expression.h"
#include "specification/primitives/shape_rules.h"

namespace ttrace::audit {
namespace {

using trace::Kind;
using trace::TensorEntry;

bool is_judged_elsewhere(Kind kind) { return kind == Kind::kMainGrad || kind == Kind::kGradNorm; }

bool is_given(Kind kind) {
  return kind == Kind::kParam || kind == Kind::kBuffer || kind == Kind::kOptimizerState ||
         kind == Kind::kIndex || kind == Kind::kScalar;
}

// The memory for values: all that --memory allows; the execution was given half of it.
std::uint64_t memory_for_values(const ExpressionAudit& audit) {
  const std::uint64_t all = base::checked_mul(audit.execution.memory_bytes, 2)
                                .value_or(std::numeric_limits<std::uint64_t>::max());
  return all - std::min(all, audit.held_bytes);
}

// The judging of a run. `tensors` are its own, with the checks that need no expression.
class Audit {
 public:
  Audit(const ExpressionAudit& audit, const std::vector<AuditedTensor>& tensors)
      : audit_(audit),
        run_(audit.run, audit.specification, audit.execution, memory_for_values(audit)),
        updates_(audit.specification, audit.run.manifest()),
        narrow_factors_(audit.run.manifest().run.products),
        numbers_([this](std::size_t number,
                        const trace::TensorKey& like) { return run_.find(number, like); },
                 [this](const TensorEntry& entry) { return run_.value_of(entry); },
                 audit.execution) {
    for (const AuditedTensor& tensor : tensors) {
      if (const std::set<std::string> known = travelling(tensor); !known.empty()) {
        travelling_.emplace(tensor.key, known);
      }
    }
  }

  void check(AuditedTensor& tensor) {
    const TensorEntry* entry = run_.find(tensor.key);
    if (is_judged_elsewhere(tensor.key.kind) || tensor.unreadable || tensor.left_undone) return;
    if (audit_.division.part && !tensor.norm) return;  // the merge judges by the manifest
    if (is_left_by_step(tensor.key.kind) && !follows_formula(tensor)) return;
    if (is_given(tensor.key.kind)) tensor.outcome = AuditOutcome::kGiven;
    if (entry == nullptr) {
      tensor.reason =
          base::render({"it stands for several micro-batches, the specification for one", {}});
      return;
    }
    if (run_.has_other_sizes(tensor.key)) {
      if (tensor.outcome != AuditOutcome::kGiven) {
        tensor.reason = base::render(
            {"the micro-batch has other sizes in this step than in the specification", {}});
      }
      return;
    }
    const specification::Specification& specification = run_.variant_of(tensor.key);
    const std::optional<std::size_t> number = specification.find(tensor.key);
    if (!number) {
      if (tensor.outcome != AuditOutcome::kGiven && tensor.reason.empty()) {
        tensor.reason = base::render({"the specification does not have it", {}});
      }
      return;
    }
    const specification::SpecifiedTensor& specified = specification.tensors[*number];
    if (tensor.class_name.empty()) tensor.class_name = specified.module_class;
    if (tensor.called_at.empty()) tensor.called_at = specified.called_at;
    const auto found = specification::expression_of(specification, *number, [&](std::size_t other) {
      return run_.find(other, tensor.key) != nullptr;
    });
    if (const auto* none = std::get_if<specification::NoExpression>(&found)) {
      if (none->why == specification::NoExpression::Why::kGiven &&
          !must_be_derived(specification, tensor.key)) {
        tensor.outcome = AuditOutcome::kGiven;
      } else if (none->why == specification::NoExpression::Why::kGiven) {
        tensor.reason = base::render({"the specification does not say what it follows from", {}});
      } else {
        tensor.reason = none->reason;
        if (none->why == specification::NoExpression::Why::kNotRecorded) {
          tensor.lacks = specification.key_of(none->tensor);
          tensor.reason += why_never_recorded(audit_.run.manifest(), tensor.lacks->kind);
        }
      }
      return;
    }
    judge(std::get<specification::Expression>(found), *entry, tensor);
  }

  JudgedValues judged() && { return std::move(judged_); }

 private:
  // Whether a formula is to judge what a step left: no replay has, and the formula holds for it.
  // Otherwise a buffer is given, and an update says why nothing judges it.
  bool follows_formula(AuditedTensor& tensor) {
    const bool replayed = std::ranges::any_of(
        tensor.checks, [](const AuditCheck& check) { return check.operation == kOptimizerStep; });
    if (replayed) return false;
    const std::string problem = updates_.why_not(tensor.key);
    if (problem.empty()) {
      tensor.reason.clear();
      return true;
    }
    if (tensor.key.kind == Kind::kBufferAfterStep) {
      tensor.outcome = AuditOutcome::kGiven;
    } else if (!audit_.specification.updates.empty()) {
      tensor.reason = base::concat(tensor.reason, tensor.reason.empty() ? "" : "; ", problem);
    }
    return false;
  }

  // Notes that the tensor follows from `source` if faults of it travel. Looks at every name under
  // which the trace has the source: ranks may have taken the result of a reduction, while the first
  // name is the term before it. Of names with the same faults the first is enough.
  void note_source(std::size_t source, std::set<std::string>& noted, AuditedTensor& tensor) const {
    if (travelling_.empty()) return;
    for (const std::uint32_t name : run_.variant_of(tensor.key).names_of_value(source)) {
      const TensorEntry* entry = run_.find(name, tensor.key);
      if (entry == nullptr || entry->key == tensor.key) continue;
      const auto found = travelling_.find(entry->key);
      if (found == travelling_.end()) continue;
      const std::size_t before = noted.size();
      noted.insert(found->second.begin(), found->second.end());
      if (noted.size() > before) tensor.follows_from.push_back(entry->key);
    }
  }

  // Whether every rank computed with exactly the stored values. Not for partial sums: a rank may
  // have had the sum in its own precision.
  bool is_exact(const TensorEntry& entry) const {
    const tensor::DType kept = tensor::kept_in(entry.computed_in.value_or(entry.dtype));
    if (entry.scale != 1 || kept != entry.dtype) return false;
    return std::none_of(entry.placements.begin(), entry.placements.end(), [](const auto& placed) {
      return std::holds_alternative<trace::Partial>(placed.second);
    });
  }

  void judge(specification::Expression expression, const TensorEntry& entry,
             AuditedTensor& tensor) {
    tensor.narrow_factors = narrow_factors_.round_in(expression);
    std::set<std::string> noted;
    for (specification::Leaf& leaf : expression.leaves) {
      const TensorEntry* from = run_.find(leaf.tensor, tensor.key);
      leaf.exact = from == nullptr || is_exact(*from);
      if (from != nullptr) note_source(leaf.tensor, noted, tensor);
    }
    if (is_forged(expression, tensor.key)) {
      tensor.reason = base::render({"it follows from constants of the specification alone", {}});
      return;
    }
    const std::vector<std::uint32_t> computed = expression.computed;
    std::optional<ReadExpression> read;
    std::optional<ExpressionJudged> judged = restored(tensor);
    if (!judged) {
      if (audit_.stop != nullptr && audit_.stop->load(std::memory_order_relaxed)) {
        tensor.left_undone = true;
        tensor.reason = "interrupted";
        return;
      }
      try {
        judged.emplace();
        judge_now(std::move(expression), entry, tensor, read, *judged);
      } catch (const base::InputError& error) {
        judged->problem = error.what();
      }
      if (is_recorded()) audit_.work->record(finished(tensor.key, *judged));
    } else if (judged->check.result == CheckResult::kInconsistent && judged->problem.empty()) {
      read = read_for_causes(std::move(expression), tensor.key);
    }
    if (!judged->problem.empty()) {
      tensor.reason = judged->problem;
      tensor.left_undone = audit_.division.had && !audit_.division.part &&
                           comparison::needs_another_machine(tensor.reason);
      return;
    }
    AuditCheck& check = judged->check;
    tensor.endless = judged->endless;
    if (check.result == CheckResult::kNotReplayable) tensor.reason = check.reason;
    if (check.result == CheckResult::kInconsistent && read) explain(*read, entry, check, tensor);
    if (check.result == CheckResult::kConsistent || check.result == CheckResult::kInconsistent) {
      note_judged(computed, tensor.key);
    }
    tensor.checks.push_back(std::move(check));
  }

  bool is_recorded() const { return audit_.work != nullptr && audit_.work->is_recorded(); }

  static comparison::Finished finished(const trace::TensorKey& key,
                                       const ExpressionJudged& judged) {
    return {key, comparison::FinishedJudgement{
                     judged.problem, judged.problem.empty() ? judgement_text(judged) : ""}};
  }

  // Returns the judgement of another or an earlier process; nothing if there is none.
  std::optional<ExpressionJudged> restored(const AuditedTensor& tensor) {
    if (audit_.work == nullptr) return std::nullopt;
    auto found = audit_.work->take<comparison::FinishedJudgement>(tensor.key);
    if (!found) {
      if (audit_.division.measured_by.empty() || !tensor.norm) return std::nullopt;
      throw base::input_error("the parts lack the judgement of ",
                              base::printable(to_string(tensor.key)),
                              "; run them again to their end");
    }
    ExpressionJudged judged;
    if (found->problem.empty()) judged = parse_judgement(found->judgement);
    judged.problem = std::move(found->problem);
    if (is_recorded()) audit_.work->record_again(finished(tensor.key, judged));
    return judged;
  }

  // Reads the leaves again for a tensor that was judged before and does not follow; nothing if they
  // cannot be read any more, or enough causes were sought.
  std::optional<ReadExpression> read_for_causes(specification::Expression expression,
                                                const trace::TensorKey& key) {
    if (explained_ >= kMostExplained || !run_.has_room_for(expression)) {
      ++explained_;
      return std::nullopt;
    }
    try {
      return run_.read(std::move(expression), key);
    } catch (const base::InputError&) {
      return std::nullopt;
    }
  }

  // Sets `into` to what was read if the tensor could be judged.
  void judge_now(specification::Expression whole, const TensorEntry& entry,
                 const AuditedTensor& tensor, std::optional<ReadExpression>& into,
                 ExpressionJudged& out) {
    if (!run_.has_room_for(whole)) {
      out.problem =
          base::render({"its expression needs up to {bytes} of memory; allow more with --memory",
                        {{"bytes", base::human_bytes(specification::judging_bytes(whole))}}});
      return;
    }
    const bool is_identity = whole.steps.empty();
    into = run_.read(std::move(whole), tensor.key);
    const specification::Expression& expression = into->expression;
    const std::vector<specification::Value>& leaves = into->leaves;
    specification::ExpressionOptions options;
    options.products = audit_.products;
    options.seed = specification::seed_of(tensor.key);
    options.most_rows = kMostRows;
    options.context = audit_.execution;
    options.sharing = &into->sharing;
    const specification::Value recorded = run_.value_of(entry);
    const specification::ExpressionJudgement judged =
        specification::judge_expression(expression, leaves, recorded, entry.dtype, options);
    if (!judged.follows() && numbers_.differ(run_.variant_of(tensor.key), tensor.key)) {
      out.problem = base::render(
          {"the model read other numbers from tensors here than in the specification", {}});
      return;
    }
    AuditCheck& check = out.check;
    check.operation = is_identity ? "identity" : "expression";
    check.expected = specification::describe_expression(expression);
    check.error = judged.relative_error;
    check.bound = judged.expected_norm > 0 ? judged.bound / judged.expected_norm : 0;
    check.expected_norm = judged.expected_norm;
    check.allowed = judged.bound;
    check.by_probes = judged.by_probes;
    const std::uint64_t elements = recorded.size();
    if (judged.follows()) out.endless = judged.endless;
    if (judged.follows() && 2 * judged.endless > elements) {
      check.result = CheckResult::kNotReplayable;
      check.reason = base::render(
          {"{count} of {elements:element} are NaN or infinite, as is what they were computed from",
           {{"count", judged.endless}, {"elements", elements}}});
    } else if (judged.follows() && judged.below_bound) {
      check.result = CheckResult::kBelowBound;
      check.reason = kBelowBoundReason;
    } else if (!judged.follows()) {
      check.result = CheckResult::kInconsistent;
      check.reason = reason_of_mismatch(judged, tensor);
      if (judged.non_finite > 0) {
        check.overflow = has_overflowed(
            entry, leaves,
            specification::evaluate(expression, leaves, std::nullopt, audit_.execution));
      }
      name_rows(audit_.run, judged, entry, check);
    }
  }

  // Whether a loss or gradient follows only from elements that stand in the specification, and from
  // nothing that the run holds: it would be held against an answer that somebody has written down.
  static bool is_forged(const specification::Expression& expression, const trace::TensorKey& key) {
    if (key.kind == Kind::kInput || key.kind == Kind::kOutput || !is_computed(key)) return false;
    if (std::any_of(expression.leaves.begin(), expression.leaves.end(),
                    [](const specification::Leaf& leaf) { return !leaf.constant; })) {
      return false;
    }
    return !expression.leaves.empty() ||
           std::any_of(expression.steps.begin(), expression.steps.end(),
                       [](const specification::Step& step) {
                         return specification::lists_elements(*step.node->primitive);
                       });
  }

  void note_judged(const std::vector<std::uint32_t>& computed, const trace::TensorKey& key) {
    if (is_left_by_step(key.kind)) return;  // the numbers are those of another list of tensors
    std::set<std::uint32_t>& judged = judged_[{key.step, key.microbatch}];
    judged.insert(computed.begin(), computed.end());
    const specification::Specification& specification = run_.variant_of(key);
    judged.insert(static_cast<std::uint32_t>(specification.original(*specification.find(key))));
  }

  static constexpr std::size_t kMostRows = 4096;
  static constexpr std::size_t kMostExplained = 100;  // broken tensors whose cause is sought

  void explain(const ReadExpression& read, const TensorEntry& entry, AuditCheck& check,
               AuditedTensor& tensor) {
    if (audit_.division.part || explained_++ >= kMostExplained) return;
    try {
      if (is_left_by_step(entry.key.kind) &&
          explain_unmoved(audit_.run, run_.find(before_step(entry.key)), entry, tensor)) {
        return;
      }
      const measure::TensorRef expected = expected_tensor(
          audit_.run, entry,
          specification::evaluate(read.expression, read.leaves, std::nullopt, audit_.execution));
      explain_mismatch(audit_.run, entry, expected, check.allowed, *audit_.execution.backend, check,
                       tensor);
    } catch (const base::InputError&) {
      // The finding stands without a cause.
    }
  }

  const ExpressionAudit& audit_;
  SpecifiedRun run_;
  UpdateFormulas updates_;
  specification::NarrowFactors narrow_factors_;
  ReadNumbers numbers_;
  std::map<trace::TensorKey, std::set<std::string>> travelling_;  // see travelling()
  std::size_t explained_ = 0;
  JudgedValues judged_;
};

}  // namespace

JudgedValues check_expressions(const ExpressionAudit& audit, std::vector<AuditedTensor>& tensors) {
  Audit running(audit, tensors);
  for (AuditedTensor& tensor : tensors) running.check(tensor);
  return std::move(running).judged();
}

}  // namespace ttrace::audit
