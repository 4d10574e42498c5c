#include "progress_display.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <mutex>

#include "base/log.h"
#include "base/text.h"
#include "report/progress_text.h"

namespace ttrace::app {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

class Display : public base::Progress {
 public:
  Display() : terminal_(::isatty(STDERR_FILENO) == 1) {}

  ~Display() override {
    if (terminal_ && shown_) std::fputs("\r\033[K", stderr);
  }

  void expect(std::uint64_t bytes) override {
    const std::lock_guard lock(mutex_);
    state_.expected_bytes += bytes;
  }

  void advance(std::uint64_t bytes) override {
    const std::lock_guard lock(mutex_);
    state_.done_bytes += bytes;
    const Clock::time_point now = Clock::now();
    if (now < next_) return;
    next_ = now + (terminal_ ? milliseconds(100) : milliseconds(10000));
    show(std::chrono::duration<double>(now - started_).count());
  }

  void measured(const std::string& tensor, double relative_error) override {
    const std::lock_guard lock(mutex_);
    if (!state_.largest_error.empty() && !(relative_error > state_.error)) return;
    state_.largest_error = tensor;
    state_.error = relative_error;
  }

 private:
  void show(double seconds) {
    state_.seconds = seconds;
    std::string text = report::progress_text(state_);
    if (!terminal_) {
      std::fputs(base::concat("ttrace: ", text, "\n").c_str(), stderr);
      return;
    }
    winsize size{};
    const std::size_t columns =
        ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
    // Names are printable bytes; a letter of several bytes may be cut, at the very end.
    if (text.size() >= columns) text.resize(columns - 1);
    std::fputs(base::concat("\r", text, "\033[K").c_str(), stderr);
    shown_ = true;
  }

  const bool terminal_;
  const Clock::time_point started_ = Clock::now();
  std::mutex mutex_;
  // Nothing is said of what takes no time.
  Clock::time_point next_ = started_ + (terminal_ ? milliseconds(500) : milliseconds(10000));
  report::ProgressState state_;
  bool shown_ = false;
};

}  // namespace

std::unique_ptr<base::Progress> progress_display() {
  if (base::is_quiet()) return nullptr;
  return std::make_unique<Display>();
}

}  // namespace ttrace::app
