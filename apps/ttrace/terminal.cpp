#include "terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <charconv>
#include <cstdlib>
#include <string_view>

#include "mpi_ranks.h"

namespace ttrace::app {
namespace {

constexpr std::size_t kUsualWidth = 80;
constexpr std::size_t kNarrowest = 20;

// Whoever looks at what mpirun passes on, it is not at the terminal that this process sees.
bool is_terminal(int descriptor) { return isatty(descriptor) == 1 && !mpi_rank(); }

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
  return known && size.ws_col >= kNarrowest ? size.ws_col : kUsualWidth;
}

bool wants_colour(int descriptor, const std::string& choice) {
  if (choice != "auto") return choice == "always";
  const char* no_colour = std::getenv("NO_COLOR");
  return is_terminal(descriptor) && (no_colour == nullptr || *no_colour == '\0');
}

}  // namespace ttrace::app
