#include "job.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <fstream>
#include <thread>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "descendants.h"
#include "process.h"

#ifdef __linux__
#include <sys/prctl.h>
#endif

extern char** environ;

namespace ttrace::app {
namespace {

using JobClock = std::chrono::steady_clock;

constexpr auto kBetweenLooksAtJob = std::chrono::milliseconds(20);

double seconds_since(JobClock::time_point begin) {
  return std::chrono::duration<double>(JobClock::now() - begin).count();
}

// A descriptor that is closed with the object, and not inherited.
class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() { close(); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  int number() const { return number_; }
  void close() {
    if (number_ >= 0) ::close(std::exchange(number_, -1));
  }

 private:
  int number_;
};

std::vector<std::string> environment_of(const Job& job) {
  std::vector<std::string> all;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    if (!job.variables.contains(text.substr(0, text.find('=')))) all.push_back(text);
  }
  for (const auto& [name, value] : job.variables) {
    if (value) all.push_back(base::concat(name, "=", *value));
  }
  return all;
}

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  pointers.reserve(texts.size() + 1);
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

// In the child: becomes the program of the job. Calls nothing that takes memory.
[[noreturn]] void become(char** words, char** environment, int input, int log, int failure) {
  ::setpgid(0, 0);  // so that the Ctrl-C of a terminal reaches ttrace alone, which ends the job
#ifdef __linux__
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);  // torchrun passes it on to its workers
#endif
  std::signal(SIGXFSZ, SIG_DFL);
  restore_file_limit();
  ::dup2(input, STDIN_FILENO);
  ::dup2(log, STDOUT_FILENO);
  ::dup2(log, STDERR_FILENO);
  environ = environment;
  ::execvp(words[0], words);
  const int error = errno;
  [[maybe_unused]] const ssize_t told = ::write(failure, &error, sizeof error);
  ::_exit(127);
}

pid_t start(const Job& job) {
  const Descriptor log(
      ::open(job.log.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0666));
  if (log.number() < 0) {
    throw base::input_error(job.log, ": cannot be written: ", base::writing_problem(errno));
  }
  const Descriptor input(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  int ends[2] = {-1, -1};
  if (::pipe(ends) != 0) throw base::internal_error("pipe: ", base::reading_problem(errno));
  const Descriptor reading(ends[0]);
  Descriptor writing(ends[1]);
  for (const int end : ends) ::fcntl(end, F_SETFD, FD_CLOEXEC);
  std::vector<std::string> words = job.words;
  std::vector<std::string> environment = environment_of(job);
  const std::vector<char*> word_pointers = pointers_to(words);
  const std::vector<char*> variable_pointers = pointers_to(environment);
  const pid_t child = ::fork();
  if (child == 0) {
    become(const_cast<char**>(word_pointers.data()), const_cast<char**>(variable_pointers.data()),
           input.number(), log.number(), writing.number());
  }
  if (child < 0) {
    throw base::input_error(job.name,
                            ": no process can be started: ", base::reading_problem(errno));
  }
  writing.close();
  int error = 0;
  ssize_t got = 0;
  while ((got = ::read(reading.number(), &error, sizeof error)) < 0 && errno == EINTR) {
  }
  if (got != sizeof error) return child;
  ::waitpid(child, nullptr, 0);
  throw base::input_error(
      job.name, ": ", base::printable(job.words.front()), " cannot be started: ",
      error == ENOENT ? "there is no such program; is its environment activated?"
                      : base::concat("the system says ", base::printable(::strerror(error))));
}

bool exists(const std::string& path) {
  struct stat facts {};
  return ::stat(path.c_str(), &facts) == 0;
}

}  // namespace

JobEnd run_job(const Job& job, const std::atomic<bool>& stopping) {
  adopt_orphans();
  const auto begin = JobClock::now();
  const pid_t leader = start(job);
  JobEnd end;
  while (true) {
    int status = 0;
    const pid_t reaped = ::waitpid(leader, &status, WNOHANG);
    if (reaped == leader) {
      const bool exited = WIFEXITED(status);
      end.why = exited ? JobEnd::Why::kExited : JobEnd::Why::kKilled;
      end.status = exited ? WEXITSTATUS(status) : WTERMSIG(status);
      break;
    }
    if (stopping.load()) {
      end.why = JobEnd::Why::kStopped;
      break;
    }
    if (!job.done.empty() && exists(job.done)) {
      end.why = JobEnd::Why::kDone;
      break;
    }
    if (seconds_since(begin) > job.limit) {
      end.why = JobEnd::Why::kLimit;
      break;
    }
    std::this_thread::sleep_for(kBetweenLooksAtJob);
  }
  end_descendants(job.name, leader);
  end.seconds = seconds_since(begin);
  return end;
}

std::vector<std::string> shell_words(const std::string& command) {
  const std::string first = command.substr(0, command.find(' '));
  const bool plain = command.find_first_of(";&|\n(){}<>") == std::string::npos &&
                     first.find('=') == std::string::npos && !first.empty();
  return {"/bin/sh", "-c", plain ? "exec " + command : command};
}

std::vector<std::string> tail_of(const std::string& log, std::size_t lines) {
  constexpr std::streamoff kMost = 16384;
  std::ifstream file(log, std::ios::binary | std::ios::ate);
  const std::streamoff size = file.tellg();
  if (!file || size <= 0) return {};
  file.seekg(std::max<std::streamoff>(0, size - kMost));
  std::vector<std::string> all;
  for (std::string line; std::getline(file, line);) {
    // Drops text that a progress bar has overwritten.
    while (!line.empty() && line.back() == '\r') line.pop_back();
    line.erase(0, line.rfind('\r') + 1);
    if (!line.empty()) all.push_back(base::shortened(base::printable(line), 400));
  }
  if (all.size() > lines) all.erase(all.begin(), all.end() - static_cast<std::ptrdiff_t>(lines));
  return all;
}

}  // namespace ttrace::app
