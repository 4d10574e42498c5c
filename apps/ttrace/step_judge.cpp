#include "step_judge.h"

#include <utility>
#include <vector>

#include "auditing.h"
#include "comparison.h"
#include "inputs.h"
#include "shared_work.h"

namespace ttrace::app {

Answer judge_step(const StepJudgeFlags& flags, std::uint64_t step,
                  std::unique_ptr<trace::Source> run,
                  const std::shared_ptr<const report::AnswerPolicy>& policy,
                  const std::atomic<bool>& stop) {
  ComparisonFlags comparison;
  comparison.pair = flags.pair;
  comparison.pair.selection.steps = {step};
  AuditedRunFlags audit;
  std::unique_ptr<SharedWork> work;
  if (flags.audits()) {
    audit.run = flags.pair.candidate;
    audit.specification = flags.specification;
    audit.layout = flags.pair.layout;
    audit.tolerance = flags.pair.tolerance;
    audit.threads = flags.pair.threads;
    audit.selection = comparison.pair.selection;
    work = std::make_unique<SharedAudit>(audit, std::move(run));
  } else {
    work = std::make_unique<SharedComparison>(comparison, std::move(run));
  }
  work->run(nullptr, {}, &stop);
  Answer answer = policed(work->answer(), policy);
  answer.json = [all = answer.json(report::Detail::kAll),
                 findings = answer.json(report::Detail::kFindings)](report::Detail detail) {
    return detail == report::Detail::kAll ? all : findings;
  };
  answer.text = nullptr;
  return answer;
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
