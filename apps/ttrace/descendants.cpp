#include "descendants.h"

#include <dirent.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <chrono>
#include <csignal>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <string_view>
#include <thread>
#include <vector>

#include "base/log.h"
#include "base/text.h"

#ifdef __linux__
#include <sys/prctl.h>
#endif

namespace ttrace::app {
namespace {

using EndClock = std::chrono::steady_clock;

constexpr auto kToEnd = std::chrono::seconds(5);
constexpr auto kToDie = std::chrono::seconds(5);
constexpr auto kBetweenSignals = std::chrono::milliseconds(10);

struct Process {
  pid_t parent = 0;
  char state = '?';
};

// "/proc/N/stat" is "N (name) state parent ...", and a name may have anything in it.
std::map<pid_t, Process> processes() {
  std::map<pid_t, Process> all;
  DIR* const folder = ::opendir("/proc");
  if (folder == nullptr) return all;
  while (const dirent* entry = ::readdir(folder)) {
    const std::string_view name = entry->d_name;
    pid_t number = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
    if (error != std::errc() || end != name.data() + name.size()) continue;
    std::ifstream file(base::concat("/proc/", name, "/stat"));
    // If a process ends meanwhile, reading its file fails, and the buffer's iterators would throw.
    std::string text(4096, '\0');
    file.read(text.data(), static_cast<std::streamsize>(text.size()));
    text.resize(static_cast<std::size_t>(file.gcount()));
    const std::size_t close = text.rfind(')');
    if (close == std::string::npos || close + 4 >= text.size()) continue;
    Process found;
    found.state = text[close + 2];
    std::from_chars(text.data() + close + 4, text.data() + text.size(), found.parent);
    all.emplace(number, found);
  }
  ::closedir(folder);
  return all;
}

// Returns the descendants that still run. Without /proc, returns the process group as a negative
// number, which kill() takes.
std::vector<pid_t> descendants(pid_t group) {
  const std::map<pid_t, Process> all = processes();
  if (all.empty() && ::kill(-group, 0) == 0) return {-group};
  std::set<pid_t> mine{::getpid()};
  std::vector<pid_t> found;
  for (bool grows = true; grows;) {
    grows = false;
    for (const auto& [number, process] : all) {
      if (!mine.contains(process.parent) || !mine.insert(number).second) continue;
      grows = true;
      if (process.state != 'Z' && process.state != 'X') found.push_back(number);
    }
  }
  return found;
}

void reap() {
  while (::waitpid(-1, nullptr, WNOHANG) > 0) {
  }
}

// Sends the signal to all that run, and to those that they start meanwhile, until none is left or
// the time is up. Returns how many are left.
std::size_t end_by(int signal, EndClock::duration time, pid_t group) {
  const EndClock::time_point last = EndClock::now() + time;
  std::set<pid_t> told;
  while (true) {
    reap();
    const std::vector<pid_t> left = descendants(group);
    if (left.empty() || EndClock::now() > last) return left.size();
    for (const pid_t process : left) {
      if (signal != SIGKILL && !told.insert(process).second) continue;
      ::kill(process, signal);
      ::kill(process, SIGCONT);  // a stopped process takes no other signal
    }
    std::this_thread::sleep_for(kBetweenSignals);
  }
}

}  // namespace

void adopt_orphans() {
#ifdef __linux__
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
#endif
}

void end_descendants(const std::string& whose, pid_t group) {
  if (end_by(SIGTERM, kToEnd, group) == 0) return;
  const std::size_t left = end_by(SIGKILL, kToDie, group);
  reap();
  if (left == 0) return;
  base::warn_even_if_quiet(
      base::concat(whose, ": ", left, left == 1 ? " process" : " processes",
                   " cannot be ended and may still hold memory; see `ps -e --forest`"));
}

}  // namespace ttrace::app
