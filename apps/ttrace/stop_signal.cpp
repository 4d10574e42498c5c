#include "stop_signal.h"

#include <array>
#include <csignal>
#include <ctime>

namespace ttrace::app {
namespace {

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
    std::raise(signal);  // taken when this handler returns
  }
}

}  // namespace

StopSignal::StopSignal() {
  stop = false;
  first_at = 0;
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;  // no reading or writing ends early
  ::sigemptyset(&action.sa_mask);
  for (const int signal : kSignals) ::sigaction(signal, &action, nullptr);
}

StopSignal::~StopSignal() {
  for (const int signal : kSignals) std::signal(signal, SIG_DFL);
}

const std::atomic<bool>& StopSignal::flag() const { return stop; }

}  // namespace ttrace::app
