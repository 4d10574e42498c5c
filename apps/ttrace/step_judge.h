// Judges one step of a trace as `ttrace compare --step N` does, or `ttrace audit --step N`.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "answer_output.h"
#include "flags/policy.h"
#include "flags/traces.h"
#include "trace/source.h"

namespace ttrace::app {

struct StepJudgeFlags {
  JudgedPairFlags pair;  // without a reference, the run is audited
  std::string specification;
  PolicyFlags policy;

  bool audits() const { return pair.reference.empty(); }
};

struct JudgedStep {
  GivenAnswer answer;    // without its text
  bool read_all = true;  // false if a tensor could not be read
};

// The answer holds no file open: HDF5 would show later readers of a file its state at the first
// opening. Throws an input error if the trace, or a file that it is judged by, cannot be read. Once
// `stop` is true, the answer may cover only what is known.
JudgedStep judge_step(const StepJudgeFlags& flags, std::uint64_t step,
                      std::unique_ptr<trace::Source> run,
                      const std::shared_ptr<const report::AnswerPolicy>& policy,
                      const std::atomic<bool>& stop);

// Opens the reference and the rules once before the first step, to report mistakes in them early.
// Returns the steps that the reference has; nothing where a run is audited.
std::optional<std::set<std::uint64_t>> steps_to_judge_by(const StepJudgeFlags& flags);

}  // namespace ttrace::app
