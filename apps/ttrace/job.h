// One job of `ttrace run`: the user's training command with every process that it starts,
// torchrun's workers included. None of them outlives the call.
#pragma once

#include <atomic>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace ttrace::app {

struct Job {
  std::string name;                                             // in messages: "the reference"
  std::vector<std::string> words;                               // the program and its arguments
  std::map<std::string, std::optional<std::string>> variables;  // nothing: removed
  std::string log;                                              // the file for what it prints
  std::string done;  // the collector makes this file when the trace is complete; empty: not awaited
  double limit = 0;  // seconds
};

struct JobEnd {
  enum class Why {
    kDone,     // the trace was complete, so the job was ended
    kExited,   // by itself, with this status
    kKilled,   // by this signal, from elsewhere
    kLimit,    // it was ended when its time was up
    kStopped,  // it was ended because the user asked for it
  };

  Why why = Why::kExited;
  int status = 0;
  double seconds = 0;
};

// Runs the job, and ends the processes that are left of it. `stopping`: once true, the job is
// ended. Throws an input error if the log cannot be written or the program not started.
JobEnd run_job(const Job& job, const std::atomic<bool>& stopping);

// The words that run what a person typed for a shell. A plain command takes the shell's place, so
// that nothing stands between ttrace and the job.
std::vector<std::string> shell_words(const std::string& command);

// The last lines of a job's log, made printable, or empty.
std::vector<std::string> tail_of(const std::string& log, std::size_t lines);

}  // namespace ttrace::app
