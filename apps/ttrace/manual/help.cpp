#include "manual/help.h"

#include <algorithm>
#include <string_view>

#include "base/text.h"
#include "flags/flag_group.h"
#include "manual/description.h"

namespace ttrace::app {
namespace {

using base::concat;

constexpr std::size_t kColumns = 100;
constexpr std::size_t kDescriptions = 30;  // the column where they begin

// Puts `text` into the column of descriptions, where `used` columns of the line are taken already;
// behind longer text on the same line if it fits there.
std::string in_column(std::string_view text, std::size_t used) {
  std::string out;
  if (used + 2 > kDescriptions) {
    if (used + 2 + text.size() <= kColumns) return base::concat("  ", text, "\n");
    out += "\n";
    used = 0;
  }
  out.append(kDescriptions - used, ' ');
  std::size_t column = kDescriptions;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    const std::string_view word = text.substr(0, end);
    const auto width = static_cast<std::size_t>(
        std::count_if(word.begin(), word.end(), [](char byte) { return (byte & 0xC0) != 0x80; }));
    if (column > kDescriptions && column + 1 + width > kColumns) {
      out += concat("\n", std::string(kDescriptions, ' '));
      column = kDescriptions;
    } else if (column > kDescriptions) {
      out += ' ';
      ++column;
    }
    out += word;
    column += width;
    text.remove_prefix(end == text.size() ? end : end + 1);
  }
  return out + "\n";
}

std::string line_of(const std::string& left, std::string_view text) {
  return concat("  ", left, in_column(text, left.size() + 2));
}

}  // namespace

std::string HelpFormatter::make_help(const CLI::App* app, std::string, CLI::AppFormatMode) const {
  const DescribedCommand command = describe(*app);
  std::string help = concat(command.summary, "\nUsage: ", usage_of(command), "\n");
  if (!command.examples.empty()) help += "\nExamples:\n";
  for (const std::string_view line : command.examples) help += concat("  ", line, "\n");
  if (!command.commands.empty()) help += "\nCommands:\n";
  for (const DescribedCommand& below : command.commands) help += line_of(below.name, below.summary);
  help += "\n";
  for (const DescribedOption& one : command.arguments) help += line_of(one.value, one.help);
  for (const char* const group : kGroups) {
    if (std::string_view(group) == kNights || std::string_view(group) == kRare) continue;
    bool first = true;
    for (const DescribedOption& flag : command.flags) {
      if (flag.group != group) continue;
      if (first) help += concat(group, ":\n");
      first = false;
      help += line_of(spelled(flag), flag.help);
    }
  }
  return concat(help, "\n", command.footer, command.footer.empty() ? "" : "\n");
}

}  // namespace ttrace::app
