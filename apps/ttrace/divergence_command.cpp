#include "divergence_command.h"

#include <unistd.h>

#include <cstddef>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "job.h"
#include "outputs.h"

namespace ttrace::app {
namespace {

namespace fs = std::filesystem;

using base::concat;

constexpr std::size_t kTailOfCommand = 20;  // lines

std::string describe_end(const JobEnd& end, double limit) {
  switch (end.why) {
    case JobEnd::Why::kLimit:
      return concat("was ended after ", base::short_number(limit),
                    " s; does it hang? --command-limit gives it longer");
    case JobEnd::Why::kKilled:
      return concat("was killed by signal ", end.status);
    case JobEnd::Why::kStopped:
      return "was ended, as the watching was";
    default:
      return end.status == 0 ? "" : concat("ended with exit code ", end.status);
  }
}

// A folder of this process's own for the files that the command reads and prints.
class CommandFolder {
 public:
  CommandFolder() {
    std::string pattern = (fs::temp_directory_path() / "ttrace-watch-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) {
      throw base::input_error(pattern, ": cannot be made for what --on-divergence reads");
    }
    path_ = pattern;
  }
  ~CommandFolder() {
    std::error_code error;
    fs::remove_all(path_, error);
  }
  CommandFolder(const CommandFolder&) = delete;
  CommandFolder& operator=(const CommandFolder&) = delete;

  std::string file(const char* name) const { return (fs::path(path_) / name).string(); }

 private:
  std::string path_;
};

}  // namespace

DivergenceCommand::DivergenceCommand(std::string command, double limit,
                                     const std::atomic<bool>& stopping)
    : command_(std::move(command)), limit_(limit), stopping_(stopping) {}

DivergenceCommand::~DivergenceCommand() {
  if (thread_.joinable()) thread_.join();
}

void DivergenceCommand::start(FirstDivergence divergence) {
  if (command_.empty()) return;
  if (thread_.joinable()) thread_.join();
  thread_ = std::thread([this, divergence = std::move(divergence)] { run(divergence); });
}

void DivergenceCommand::run(const FirstDivergence& divergence) const {
  try {
    const CommandFolder folder;
    std::string report = divergence.report_file;
    if (report.empty()) {
      report = folder.file("report.json");
      OutputFile(report).store(divergence.report);
    }
    const Job job{"--on-divergence",
                  shell_words(command_),
                  {{"TTRACE_WATCH_RUN", divergence.run},
                   {"TTRACE_WATCH_STEP", concat(divergence.step)},
                   {"TTRACE_WATCH_HEADLINE", divergence.headline},
                   {"TTRACE_WATCH_REPORT", fs::absolute(report).string()}},
                  folder.file("log"),
                  "",
                  limit_};
    const JobEnd end = run_job(job, stopping_);
    for (const std::string& line : tail_of(job.log, kTailOfCommand)) {
      base::announce(concat("--on-divergence | ", line));
    }
    const std::string problem = describe_end(end, limit_);
    if (!problem.empty()) {
      base::warn_even_if_quiet(concat(
          "--on-divergence ", base::shortened(base::printable(command_), 200), ": ", problem));
    }
  } catch (const std::exception& error) {
    base::warn_even_if_quiet(base::printable(error.what()));
  }
}

}  // namespace ttrace::app
