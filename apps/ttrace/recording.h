// Runs the training jobs of `ttrace run` one after the other, and checks what each has recorded.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "run_folder.h"
#include "surviving_value.h"

namespace ttrace::app {

struct RecordingFlags {
  std::vector<std::string> command;  // the program and its arguments: of the reference, if any
  std::string candidate;             // as a shell takes it; empty: the command runs alone
  std::string specification;         // to judge by; empty: the first job makes one
  std::optional<std::uint64_t> noise_runs;  // given
  std::string steps;  // as TTRACE_STEPS takes them; empty: what the environment says
  std::string limit = "1h";
  bool to_end = false;
};

// Seconds of "90", "90s", "10m", "2h". Throws a usage error naming the flag for anything else.
double seconds_in(const std::string& flag, const std::string& time);

// How many jobs have ended with their traces written. Shared by the processes that `supervised`
// starts one after the other: a damaged trace that crashes HDF5 costs no job a second time.
class FinishedJobs {
 public:
  std::size_t count() const { return *count_; }
  void add() { ++*count_; }

 private:
  SurvivingValue<std::size_t> count_;
};

constexpr std::uint64_t kNoiseRuns = 3;  // where no number is given

// Says why no further noise run would change the answer after so many of them, or nothing.
using WhyEnough = std::function<std::string(std::uint64_t noise_runs)>;

// Runs the reference, the candidate and the noise runs, in this order: a candidate that cannot be
// compared costs no noise runs. `why_enough` is asked after the candidate and, unless the number is
// given, after each noise run; what it says is announced. Prints what the collector said beside
// what it recorded, a line once for all jobs. Without a candidate, only the command runs, as the
// run to judge. Returns the name of the job that ran when the user asked to stop, or empty. Throws
// an input error with one sentence, after the end of the job's output, where a job fails or records
// no usable trace, and where the reference lacks micro-batches of the candidate.
std::string record(const RecordingFlags& flags, const RunFolder& folder, FinishedJobs& finished,
                   const WhyEnough& why_enough, const std::atomic<bool>& stopping);

}  // namespace ttrace::app
