// The work of `ttrace watch`: waits for steps, judges each, says what changed, and sums up.
#pragma once

#include <cstdint>
#include <string>

#include "flags/answer.h"
#include "following.h"
#include "step_judge.h"
#include "surviving_value.h"

namespace ttrace::app {

struct WatchFlags {
  StepJudgeFlags judge;
  std::string timeout = "10m";
  std::string on_divergence;
  std::string command_limit = "5m";
  AnswerFlags answer;
};

// The sum of the steps' answers. It survives a crash of HDF5 that ends the process.
struct WatchTally {
  std::uint64_t judged = 0;
  std::uint64_t diverged = 0;
  std::uint64_t first_diverged = 0;
  std::uint64_t in_doubt = 0;  // inconclusive, or not judged
  std::uint64_t first_in_doubt = 0;
  std::uint64_t not_in_reference = 0;
};

// Prints a line for each step, and last the verdict; returns its exit code.
int watch_trace(const WatchFlags& flags, FollowedTrace& run,
                const SurvivingValue<WatchTally>& tally);

}  // namespace ttrace::app
