#include "process.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <ctime>
#include <new>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/files.h"
#include "base/log.h"
#include "mpi_ranks.h"
#include "trace/hdf5/trace_files.h"

#ifdef __linux__
#include <sys/prctl.h>
#endif

namespace ttrace::app {
namespace {

// The limit before it was raised.
rlimit file_limit{};
bool is_limit_raised = false;

constexpr std::array kForwarded{SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGXCPU};

volatile std::sig_atomic_t child_process = 0;

void forward(int signal) {
  if (child_process > 0) ::kill(child_process, signal);
}

bool is_crash(int signal) {
  return signal == SIGSEGV || signal == SIGBUS || signal == SIGFPE || signal == SIGILL ||
         signal == SIGABRT;
}

int wait_for(pid_t child) {
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

void end_with_parent(pid_t parent) {
#ifdef __linux__
  // SIGKILL, because nobody waits for the answer of a child whose parent was killed.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(2);  // the parent ended before the call above
#else
  static_cast<void>(parent);
#endif
}

// Blocks signals between the fork and the installation of the handlers, so that no signal ends the
// parent without reaching the child.
class SignalsHeld {
 public:
  SignalsHeld() {
    sigset_t held;
    ::sigemptyset(&held);
    for (const int signal : kForwarded) ::sigaddset(&held, signal);
    ::sigprocmask(SIG_BLOCK, &held, &before_);
  }
  ~SignalsHeld() { ::sigprocmask(SIG_SETMASK, &before_, nullptr); }
  SignalsHeld(const SignalsHeld&) = delete;
  SignalsHeld& operator=(const SignalsHeld&) = delete;

 private:
  sigset_t before_{};
};

// Set by a child whose action has ended, with or without an exception: without it, a library has
// called exit(), as HDF5 does where it gets no memory. In shared memory, or null where there is
// none.
std::atomic<bool>* action_ended = nullptr;

void share_action_ended() {
  void* const shared = ::mmap(nullptr, sizeof(std::atomic<bool>), PROT_READ | PROT_WRITE,
                              MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared != MAP_FAILED) action_ended = new (shared) std::atomic<bool>(false);
}

struct EndNoted {
  EndNoted() = default;
  ~EndNoted() {
    if (action_ended != nullptr) action_ended->store(true);
  }
  EndNoted(const EndNoted&) = delete;
  EndNoted& operator=(const EndNoted&) = delete;
};

// "`ulimit -v` allows 40000 kB", where so little explains a crash; or "". Libraries do not always
// look whether they got the memory that they asked for.
std::string scarce_memory() {
  constexpr rlim_t kEnough = rlim_t{256} << 20;
  for (const auto& [resource, name] : {std::pair{RLIMIT_AS, "v"}, {RLIMIT_DATA, "d"}}) {
    rlimit limit{};
    if (::getrlimit(resource, &limit) != 0 || limit.rlim_cur >= kEnough) continue;
    return base::concat("`ulimit -", name, "` allows ", limit.rlim_cur >> 10, " kB");
  }
  return "";
}

// `how`: "signal 11".
[[noreturn]] void throw_ended_by(const std::string& how) {
  const std::string scarce = scarce_memory();
  if (scarce.empty()) throw base::internal_error("it was ended by ", how);
  throw base::input_error("the work was ended by ", how, ", as happens without memory: ", scarce,
                          "; allow it more");
}

// Runs `action` in a child, removes its unfinished outputs and returns its wait status. In the
// child itself, returns nothing and sets `exit_code`.
std::optional<int> status_of_child(const std::function<int()>& action, int& exit_code) {
  const pid_t parent = ::getpid();
  std::optional<SignalsHeld> held(std::in_place);
  const pid_t child = ::fork();
  if (child <= 0) {
    held.reset();
    if (child == 0) end_with_parent(parent);
    // If the fork failed, run without supervision.
    const EndNoted noted;
    exit_code = action();
    return std::nullopt;
  }
  child_process = child;
  for (const int signal : kForwarded) std::signal(signal, forward);
  held.reset();
  const int status = wait_for(child);
  for (const int signal : kForwarded) std::signal(signal, SIG_DFL);
  base::remove_unfinished_outputs();
  return status;
}

constexpr std::array kSignals{SIGINT, SIGTERM};
constexpr std::int64_t kSameNanoseconds = 300'000'000;

std::atomic<bool> stop{false};
std::atomic<std::int64_t> first_at{0};
static_assert(std::atomic<bool>::is_always_lock_free &&
              std::atomic<std::int64_t>::is_always_lock_free);

std::int64_t now() {
  timespec time{};
  ::clock_gettime(CLOCK_MONOTONIC, &time);
  return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

void on_signal(int signal) {
  std::int64_t none = 0;
  if (first_at.compare_exchange_strong(none, now())) {
    stop.store(true);
  } else if (now() - first_at.load() > kSameNanoseconds) {
    std::signal(signal, SIG_DFL);
    std::raise(signal);  // delivered when this handler returns
  }
}

}  // namespace

void require_stack() {
  // Four times what any command was seen to need (tests/cli/test_limits.py).
  constexpr rlim_t kLeast = rlim_t{1} << 20;
  rlimit limit{};
  if (::getrlimit(RLIMIT_STACK, &limit) != 0 || limit.rlim_cur >= kLeast) return;
  throw base::input_error("the stack may have ", limit.rlim_cur >> 10,
                          " kB (`ulimit -s`), and ttrace needs ", kLeast >> 10,
                          " kB; allow it more, as by `ulimit -s 8192`");
}

void allow_many_files() {
  // The usual limit of 1,024 exists only for programs that use select().
  if (::getrlimit(RLIMIT_NOFILE, &file_limit) != 0) return;
  rlimit raised = file_limit;
  raised.rlim_cur = raised.rlim_max;
  is_limit_raised = ::setrlimit(RLIMIT_NOFILE, &raised) == 0;
}

void restore_file_limit() {
  if (is_limit_raised) ::setrlimit(RLIMIT_NOFILE, &file_limit);
}

int supervised(const std::function<int()>& action) {
  // Makes writing beyond the file size limit fail with EFBIG instead of ending the process.
  std::signal(SIGXFSZ, SIG_IGN);
  trace::hdf5::share_reading_note();
  base::share_unfinished_outputs();
  share_action_ended();
  while (true) {
    int exit_code = 0;
    const std::optional<int> ended = status_of_child(action, exit_code);
    if (!ended) return exit_code;
    const int status = *ended;
    if (WIFEXITED(status)) {
      // main.cpp ends a process whose memory is exhausted with 2, and has told why.
      constexpr int kTold = 2;
      const bool told =
          WEXITSTATUS(status) == kTold || action_ended == nullptr || action_ended->load();
      if (!told) throw_ended_by(base::concat("a library, with exit code ", WEXITSTATUS(status)));
      return WEXITSTATUS(status);
    }
    const int signal = WTERMSIG(status);
    const auto rank = mpi_rank();
    if (rank && signal == SIGKILL) {
      throw base::input_error("rank ", rank->rank, " of ", rank->size,
                              " was killed while it worked, so nothing was compared; was there "
                              "enough memory?");
    }
    if (!is_crash(signal)) {
      // The child was killed from outside: end the same way, so that the process waiting for this
      // one sees it.
      std::signal(signal, SIG_DFL);
      ::raise(signal);
      return 2;
    }
    const std::string file = trace::hdf5::noted_file();
    if (file.empty() || !scarce_memory().empty()) throw_ended_by(base::concat("signal ", signal));
    trace::hdf5::declare_damaged(file);
    base::inform(base::concat(file, ": the HDF5 library crashed on it; going on without it"));
  }
}

StopSignal::StopSignal() {
  stop = false;
  first_at = 0;
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;  // system calls are not interrupted
  ::sigemptyset(&action.sa_mask);
  for (const int signal : kSignals) ::sigaction(signal, &action, nullptr);
}

StopSignal::~StopSignal() {
  for (const int signal : kSignals) std::signal(signal, SIG_DFL);
}

const std::atomic<bool>& StopSignal::flag() const { return stop; }

}  // namespace ttrace::app
