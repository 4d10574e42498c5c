#include "manual/reference.h"

#include "base/text.h"
#include "flags/flag_group.h"

namespace ttrace::app {
namespace {

using base::concat;

// Text of a cell of a table.
std::string cell(const std::string& text) {
  std::string out;
  for (const char byte : text) {
    if (byte == '|') out += '\\';
    out += byte;
  }
  return out;
}

std::string row(const std::string& name, const std::string& help) {
  return concat("| `", cell(name), "` | ", cell(help), " |\n");
}

std::string table(const char* title, const std::string& rows) {
  return rows.empty() ? "" : concat("\n| ", title, " | |\n|---|---|\n", rows);
}

std::string section_of(const DescribedCommand& command) {
  std::string text =
      concat("\n## ", command.path, "\n\n`", usage_of(command), "`\n\n", command.summary, "\n");
  std::string rows;
  for (const DescribedOption& one : command.arguments) rows += row(one.value, one.help);
  text += table("Arguments", rows);
  for (const char* const group : kGroups) {
    rows.clear();
    for (const DescribedOption& flag : command.flags) {
      if (flag.group == group) rows += row(spelled(flag), flag.help);
    }
    text += table(group, rows);
  }
  return text;
}

}  // namespace

std::string reference(const DescribedCommand& program) {
  std::string text =
      "# Every flag of every command\n\n"
      "`ttrace man --format markdown` writes this page; [the command line](README.md) says what "
      "the\n"
      "commands do, and what their answers mean. The flags of `ttrace` itself go with every "
      "command.\n";
  for (const DescribedCommand* command : all_commands(program)) text += section_of(*command);
  return text;
}

}  // namespace ttrace::app
