#include "recording.h"

#include <charconv>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <optional>
#include <set>
#include <string_view>

#include "base/error.h"
#include "base/files.h"
#include "base/log.h"
#include "base/strict_json.h"
#include "base/text.h"
#include "job.h"
#include "layout/mesh.h"
#include "localize/microbatch_mismatch.h"
#include "trace/open/open_trace.h"

namespace ttrace::app {
namespace {

namespace fs = std::filesystem;

using base::concat;
using base::printable;

constexpr std::size_t kTail = 20;      // lines of a failed job's output
constexpr std::size_t kMostSaid = 12;  // lines of the collector, of all jobs

struct Recording {
  std::string name;   // in messages
  std::string file;   // the stem of its log
  std::string trace;  // where it is to be written
  std::vector<std::string> words;
  std::optional<std::uint64_t> seed;  // of a noise run
  bool specifies = false;             // writes the specification
};

std::vector<Recording> recordings_of(const RecordingFlags& flags, const RunFolder& folder) {
  if (flags.candidate.empty()) {
    return {{"the run", "run", folder.candidate(), flags.command, std::nullopt, true}};
  }
  std::vector<Recording> all{
      {"the reference", "ref", folder.reference(), flags.command, std::nullopt, true},
      {"the candidate", "run", folder.candidate(), shell_words(flags.candidate), std::nullopt}};
  for (std::uint64_t seed = 1; seed <= flags.noise_runs.value_or(kNoiseRuns); ++seed) {
    all.push_back({concat("noise run ", seed), concat("noise", seed), folder.noise_run(seed),
                   flags.command, seed});
  }
  return all;
}

std::string absolute(const std::string& path) { return fs::absolute(path).string(); }

Job job_of(const Recording& recording, const RecordingFlags& flags, const RunFolder& folder) {
  Job job{recording.name,
          recording.words,
          {},
          folder.log(recording.file),
          "",
          seconds_in("--limit", flags.limit)};
  job.variables = {{"TTRACE_OUT", absolute(recording.trace)},
                   {"TTRACE_NOISE", std::nullopt},
                   {"TTRACE_PLAN", std::nullopt},
                   {"TTRACE_SPECIFICATION", std::nullopt},
                   {"TTRACE_DONE", std::nullopt},
                   // Otherwise the last lines of a job that is killed stay in its memory.
                   {"PYTHONUNBUFFERED", "1"}};
  if (recording.seed) {
    job.variables["TTRACE_NOISE"] = concat(*recording.seed);
  } else {
    job.variables["TTRACE_NOISE_AT"] = std::nullopt;
  }
  if (recording.specifies && flags.specification.empty()) {
    job.variables["TTRACE_SPECIFICATION"] = absolute(folder.specification());
  }
  if (!flags.steps.empty()) {
    job.variables["TTRACE_STEPS"] = flags.steps;
  } else if (std::getenv("TTRACE_STEPS") == nullptr) {
    // What an update leaves, such as a stale master, shows in the step after it.
    job.variables["TTRACE_STEPS"] = "+2";
  }
  if (!flags.to_end) {
    job.done = folder.done(recording.file);
    job.variables["TTRACE_DONE"] = absolute(job.done);
  }
  return job;
}

std::string command_of(const Recording& recording) {
  if (recording.words.size() == 3 && recording.words[1] == "-c") {
    const std::string& text = recording.words[2];
    return text.starts_with("exec ") ? text.substr(5) : text;
  }
  std::string text;
  for (const std::string& word : recording.words) text += concat(text.empty() ? "" : " ", word);
  return text;
}

// Prints the end of the job's output, and returns the error.
base::InputError failed(const Recording& recording, const Job& job, const std::string& why) {
  const std::vector<std::string> lines = tail_of(job.log, kTail);
  if (!lines.empty()) {
    std::cerr << "ttrace: the end of " << printable(job.log) << ":\n";
    for (const std::string& line : lines) std::cerr << "  | " << line << "\n";
  }
  return base::input_error(recording.name, " (",
                           base::shortened(printable(command_of(recording)), 200), "): ", why);
}

std::string describe_exit(const Job& job, const JobEnd& end) {
  const bool in_shell = job.words.front() == "/bin/sh";
  if (in_shell && end.status == 127)
    return "there is no such program; is its environment activated?";
  if (in_shell && end.status == 126) return "the program may not be started by this user";
  return concat("ended with exit code ", end.status, " before its trace was complete");
}

// The report that the collector wrote when it was done.
struct Said {
  std::string run;     // the id of the run; empty where nothing was said
  std::string failed;  // why nothing is recorded, or empty
};

Said said_in(const std::string& done) {
  std::error_code error;
  if (done.empty() || !fs::exists(done, error)) return {};
  if (fs::file_size(done, error) == 0) return {"", "the trace could not be written"};
  const base::JsonDocument document(base::read_text(done), done);
  const base::JsonCursor root = document.root();
  if (const auto why = root.find("failed")) return {"", why->as_string()};
  if (root.require("steps").items().empty()) return {"", "no step was recorded"};
  return {root.require("run").as_string(), ""};
}

void require_good_end(const Recording& recording, const Job& job, const JobEnd& end,
                      const RecordingFlags& flags, const Said& said) {
  if (!said.failed.empty()) throw failed(recording, job, said.failed);
  // The collector has closed the trace; how the job ended after that does not matter.
  if (end.why == JobEnd::Why::kDone || !said.run.empty()) return;
  if (end.why == JobEnd::Why::kLimit) {
    throw failed(recording, job,
                 concat("was ended after ", flags.limit, ", before ",
                        flags.to_end ? "it came to its end" : "its trace was complete",
                        "; does it hang? --limit gives it longer"));
  }
  if (end.why == JobEnd::Why::kKilled) {
    throw failed(recording, job,
                 concat("was killed by signal ", end.status,
                        end.status == 9 ? "; was there enough memory?" : ""));
  }
  if (end.status != 0) throw failed(recording, job, describe_exit(job, end));
}

std::unique_ptr<trace::Source> opened(const Recording& recording, const Job& job,
                                      const Said& said) {
  std::error_code error;
  if (!fs::exists(recording.trace, error)) {
    throw failed(recording, job,
                 concat("ended and wrote no trace; its script needs the lines of the collector, "
                        "which `python -m ttrace_torch doctor SCRIPT` prints, without out=, and "
                        "must reach a step that is recorded"));
  }
  std::unique_ptr<trace::Source> source;
  try {
    source = trace::open_trace(recording.trace);
  } catch (const base::InputError& problem) {
    throw failed(recording, job, concat("its trace cannot be read: ", problem.what()));
  }
  const trace::RunFacts& run = source->manifest().run;
  if (!said.run.empty() && run.id != said.run) {
    throw failed(recording, job,
                 concat(recording.trace,
                        " is the trace of another run; does another job write "
                        "there, or does the script give out=?"));
  }
  if (source->manifest().tensors.empty()) {
    throw failed(recording, job, "its trace has no tensors");
  }
  if (recording.seed && (!run.noise || run.noise->seed != *recording.seed)) {
    throw failed(recording, job,
                 "was not perturbed, so it is no noise run; does the script trace a second model, "
                 "or change the environment?");
  }
  if (!recording.seed && run.noise) {
    throw failed(recording, job, "is a noise run itself; leave perturb= out of the script");
  }
  return source;
}

std::string describe_trace(const trace::Manifest& manifest, double seconds) {
  std::set<std::uint64_t> steps;
  for (const trace::TensorEntry& entry : manifest.tensors) steps.insert(entry.key.step);
  const std::vector<std::uint64_t> numbers(steps.begin(), steps.end());
  const std::size_t ranks = layout::ranks_of(manifest).size();
  return concat("    ", numbers.size() == 1 ? "step " : "steps ", base::numbers_in_words(numbers),
                ", ", base::plural(manifest.tensors.size(), "tensor"),
                ranks == 1 ? "" : concat(", ", ranks, " ranks"), ", in ",
                base::short_number(std::round(seconds * 10) / 10), " s");
}

// Whether the collector's line says what was recorded, which describe_trace() says too.
bool is_last_line(std::string_view line) { return line.find(" -> ") != std::string_view::npos; }

// Prints what the collector said in a job's log and in none before.
void repeat_collector(const Job& job, std::set<std::string>& said) {
  constexpr std::string_view kMark = "ttrace: ";
  std::ifstream log(job.log);
  for (std::string line; std::getline(log, line);) {
    if (!line.starts_with(kMark) || is_last_line(line)) continue;
    if (said.size() < kMostSaid && said.insert(line).second) {
      base::announce(concat("    ", printable(line.substr(kMark.size()))));
    }
  }
}

void require_microbatches(const RunFolder& folder, const trace::Manifest& reference,
                          const trace::Manifest& candidate) {
  const auto mismatch = localize::lacking_microbatches(reference, candidate);
  if (!mismatch) return;
  throw base::input_error(folder.path(), ": ", localize::describe_mismatch(*mismatch), " (",
                          localize::describe_numbers(*mismatch), "); ",
                          localize::remedy_of(*mismatch));
}

}  // namespace

double seconds_in(const std::string& flag, const std::string& time) {
  double value = 0;
  const char* const last = time.data() + time.size();
  const auto [end, error] = std::from_chars(time.data(), last, value);
  const std::string_view unit(end, static_cast<std::size_t>(last - end));
  const double factor = unit.empty() || unit == "s" ? 1 : unit == "m" ? 60 : unit == "h" ? 3600 : 0;
  if (error != std::errc() || factor == 0 || !(value > 0) || !std::isfinite(value)) {
    throw base::usage_error(flag, " ", printable(time),
                            ": expected a time, such as 90s, 10m or 2h");
  }
  return value * factor;
}

std::string record(const RecordingFlags& flags, const RunFolder& folder, FinishedJobs& finished,
                   const WhyEnough& why_enough, const std::atomic<bool>& stopping) {
  const std::vector<Recording> all = recordings_of(flags, folder);
  std::unique_ptr<trace::Source> reference;
  std::set<std::string> said;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Recording& recording = all[i];
    const Job job = job_of(recording, flags, folder);
    double seconds = 0;
    if (i >= finished.count()) {
      base::announce(concat(i + 1, " of ", all.size(), ": ", recording.name, ", ",
                            printable(command_of(recording))));
      const JobEnd end = run_job(job, stopping);
      if (end.why == JobEnd::Why::kStopped) return recording.name;
      seconds = end.seconds;
      require_good_end(recording, job, end, flags, said_in(job.done));
      finished.add();
    }
    std::unique_ptr<trace::Source> source = opened(recording, job, said_in(job.done));
    if (seconds > 0) {
      base::announce(describe_trace(source->manifest(), seconds));
      repeat_collector(job, said);
    }
    if (i == 0) {
      reference = std::move(source);
      continue;
    }
    if (i == 1) require_microbatches(folder, reference->manifest(), source->manifest());
    const bool any_left = i + 1 < all.size();
    if (!any_left || (i > 1 && flags.noise_runs)) continue;
    const std::string why = why_enough(i - 1);
    if (why.empty()) continue;
    base::announce(concat(base::plural(all.size() - i - 1, i == 1 ? "noise run" : "more noise run"),
                          " left out: ", why));
    break;
  }
  return "";
}

}  // namespace ttrace::app
