#include "step_judge.h"

#include <algorithm>
#include <utility>

#include "auditing.h"
#include "comparison.h"
#include "inputs.h"
#include "shared_work.h"

namespace ttrace::app {

JudgedStep judge_step(const StepJudgeFlags& flags, std::uint64_t step,
                      std::unique_ptr<trace::Source> run,
                      const std::shared_ptr<const report::AnswerPolicy>& policy,
                      const std::atomic<bool>& stop) {
  ComparisonFlags comparison;
  comparison.pair = flags.pair;
  comparison.pair.selection.steps = {step};
  JudgedStep judged;
  const auto take = [&](const SharedWork& work) {
    judged.answer = policed(work.answer(), policy);
    using Kept = std::shared_ptr<const answer::Answer>;
    const auto keep = [&judged](report::Detail detail) {
      return std::make_shared<const answer::Answer>(judged.answer.answer(detail));
    };
    const Kept all = keep(report::Detail::kAll);
    const Kept findings = keep(report::Detail::kFindings);
    judged.answer.answer = [all, findings](report::Detail detail) {
      return detail == report::Detail::kAll ? *all : *findings;
    };
    judged.answer.text = nullptr;
  };
  if (flags.audits()) {
    AuditedRunFlags audit;
    audit.run = flags.pair.candidate;
    audit.specification = flags.specification;
    audit.layout = flags.pair.layout;
    audit.tolerance = flags.pair.tolerance;
    audit.threads = flags.pair.threads;
    audit.selection = comparison.pair.selection;
    SharedAudit work(audit, std::move(run));
    work.run(nullptr, {}, &stop);
    take(work);
    const auto& tensors = work.report().tensors;
    judged.read_all = std::none_of(tensors.begin(), tensors.end(),
                                   [](const auto& tensor) { return tensor.unreadable; });
  } else {
    SharedComparison work(comparison, std::move(run));
    work.run(nullptr, {}, &stop);
    take(work);
    judged.read_all = work.report().counts.at(judge::Outcome::kUnreadable) == 0;
  }
  return judged;
}

std::optional<std::set<std::uint64_t>> steps_to_judge_by(const StepJudgeFlags& flags) {
  if (flags.audits()) {
    if (!flags.specification.empty()) read_specification(flags.specification);
    return std::nullopt;
  }
  // The reference takes the place of the run, which is not there yet, with the run's layouts.
  JudgedPairFlags inputs = flags.pair;
  inputs.layout.clear();
  const JudgedPair pair(inputs, open_and_log(inputs.reference));
  std::set<std::uint64_t> steps;
  for (const trace::TensorEntry& entry : pair.reference().manifest().tensors) {
    steps.insert(entry.key.step);
  }
  return steps;
}

}  // namespace ttrace::app
