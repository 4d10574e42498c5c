#include "supervise.h"

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <optional>

#ifdef __linux__
#include <sys/prctl.h>
#endif

#include "base/error.h"
#include "base/log.h"
#include "base/new_file.h"
#include "mpi_ranks.h"
#include "trace/hdf5/reading_note.h"

namespace ttrace::app {
namespace {

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
  // Not a signal that lets it finish: whoever killed the parent wants no answer from it.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(2);  // it was gone before the line above
#else
  static_cast<void>(parent);
#endif
}

// Between the fork and the first forwarded signal, none may end the parent alone.
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

// How the child that runs `action` ended: what it left unfinished is removed. Nothing in the child
// itself, with the exit code of the action.
std::optional<int> status_of_child(const std::function<int()>& action, int& exit_code) {
  const pid_t parent = ::getpid();
  std::optional<SignalsHeld> held(std::in_place);
  const pid_t child = ::fork();
  if (child <= 0) {
    held.reset();
    if (child == 0) end_with_parent(parent);
    // No process to be had: without supervision, then.
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

}  // namespace

int supervised(const std::function<int()>& action) {
  // A file that has become too large for this process fails to be written, with a reason.
  std::signal(SIGXFSZ, SIG_IGN);
  trace::hdf5::share_reading_note();
  base::share_unfinished_outputs();
  while (true) {
    int exit_code = 0;
    const std::optional<int> ended = status_of_child(action, exit_code);
    if (!ended) return exit_code;
    const int status = *ended;
    if (WIFEXITED(status)) return WEXITSTATUS(status);
    const int signal = WTERMSIG(status);
    const auto rank = mpi_rank();
    if (rank && signal == SIGKILL) {
      throw base::input_error("rank ", rank->rank, " of ", rank->size,
                              " was killed while it worked, so nothing was compared; was there "
                              "enough memory?");
    }
    if (!is_crash(signal)) {
      // Killed from outside: whoever waits for this process shall see the same.
      std::signal(signal, SIG_DFL);
      ::raise(signal);
      return 2;
    }
    const std::string file = trace::hdf5::noted_file();
    if (file.empty()) throw base::internal_error("it was ended by signal ", signal);
    trace::hdf5::declare_damaged(file);
    base::inform(base::concat(file, ": the HDF5 library crashed on it; going on without it"));
  }
}

}  // namespace ttrace::app
