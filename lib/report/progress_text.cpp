#include "report/progress_text.h"

#include <algorithm>
#include <array>
#include <cstdio>

#include "base/text.h"

namespace ttrace::report {
namespace {

std::string time_text(double seconds) {
  const auto whole = static_cast<unsigned long long>(std::min(seconds, 1e15) + 0.5);
  std::array<char, 48> text{};
  if (whole < 3600) {
    std::snprintf(text.data(), text.size(), "%llu:%02llu", whole / 60, whole % 60);
  } else {
    std::snprintf(text.data(), text.size(), "%llu:%02llu:%02llu", whole / 3600, whole / 60 % 60,
                  whole % 60);
  }
  return text.data();
}

}  // namespace

std::string progress_text(const ProgressState& state) {
  const double share = state.expected_bytes == 0 ? 0
                                                 : static_cast<double>(state.done_bytes) /
                                                       static_cast<double>(state.expected_bytes);
  std::string text =
      base::concat(static_cast<int>(100 * share), " %  ", base::human_bytes(state.done_bytes),
                   " of ", base::human_bytes(state.expected_bytes));
  if (state.seconds > 0) {
    const double rate = static_cast<double>(state.done_bytes) / state.seconds;
    text += base::concat("  ", base::human_bytes(static_cast<std::uint64_t>(rate)), "/s");
  }
  if (share > 0)
    text += base::concat("  ", time_text(state.seconds * (1 - share) / share), " left");
  if (!state.largest_error.empty()) {
    text += base::concat("  largest error ", base::short_number(state.error), " in ",
                         base::printable(state.largest_error));
  }
  return text;
}

}  // namespace ttrace::report
