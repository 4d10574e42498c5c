#include "terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string_view>

#include "base/log.h"
#include "base/text.h"
#include "mpi_ranks.h"
#include "report/terminal_text.h"
#include "report/text_report.h"

namespace ttrace::app {
namespace {

constexpr std::size_t kUsualWidth = 80;
constexpr std::size_t kNarrowest = 20;

// Under mpirun, the terminal that this process sees is not where its output is shown.
bool is_terminal(int descriptor) { return isatty(descriptor) == 1 && !mpi_rank(); }

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
    // May cut the last character if it has several bytes.
    if (text.size() >= columns) text.resize(columns - 1);
    std::fputs(base::concat("\r", text, "\033[K").c_str(), stderr);
    shown_ = true;
  }

  const bool terminal_;
  const Clock::time_point started_ = Clock::now();
  std::mutex mutex_;
  // The first display is delayed, so that short work shows nothing.
  Clock::time_point next_ = started_ + (terminal_ ? milliseconds(500) : milliseconds(10000));
  report::ProgressState state_;
  bool shown_ = false;
};

}  // namespace

std::size_t text_width(int descriptor) {
  if (const char* columns = std::getenv("COLUMNS"); columns != nullptr) {
    const std::string_view text(columns);
    std::size_t width = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), width);
    if (error == std::errc() && end == text.data() + text.size() && width >= kNarrowest) {
      return width;
    }
  }
  winsize size{};
  const bool known = is_terminal(descriptor) && ioctl(descriptor, TIOCGWINSZ, &size) == 0;
  if (!is_terminal(descriptor)) return 0;
  return known && size.ws_col >= kNarrowest ? size.ws_col : kUsualWidth;
}

bool wants_colour(int descriptor, const std::string& choice) {
  if (choice != "auto") return choice == "always";
  const auto is_set = [](const char* name, std::string_view off) {
    const char* value = std::getenv(name);
    return value != nullptr && *value != '\0' && std::string_view(value) != off;
  };
  if (is_set("NO_COLOR", "")) return false;
  if (is_set("CLICOLOR_FORCE", "0")) return true;
  const char* terminal = std::getenv("TERM");
  const bool dumb = terminal != nullptr && std::string_view(terminal) == "dumb";
  return is_terminal(descriptor) && !dumb;
}

std::unique_ptr<base::Progress> progress_display() {
  if (base::is_quiet()) return nullptr;
  return std::make_unique<Display>();
}

}  // namespace ttrace::app
