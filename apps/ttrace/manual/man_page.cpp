#include "manual/man_page.h"

#include <cctype>

#include "base/text.h"
#include "flags/flag_group.h"
#include "machine.h"

namespace ttrace::app {
namespace {

using base::concat;

constexpr std::string_view kParagraph = ".PP\n";

// Escapes text so that roff finds no request in it. Hyphens stay hyphens, so that flags can be
// copied.
std::string plain(std::string_view text) {
  std::string out;
  for (const char byte : text) {
    if ((byte == '.' || byte == '\'') && (out.empty() || out.back() == '\n')) out += "\\&";
    if (byte == '\\') {
      out += "\\e";
    } else if (byte == '-') {
      out += "\\-";
    } else {
      out += byte;
    }
  }
  return out;
}

// Lines as they are.
template <typename Lines>
std::string literal(const Lines& lines) {
  std::string text = ".nf\n";
  for (const auto& line : lines) text += concat(plain(line), "\n");
  return text + ".fi\n";
}

std::string entry(const std::string& name, const std::string& help) {
  return concat(".TP\n.B ", plain(name), "\n", plain(help), "\n");
}

// Paragraphs of a footer: its indented lines stay lines, the others flow.
std::string footer_text(const std::string& footer) {
  std::string text;
  bool flows = false;
  std::size_t at = 0;
  while (at < footer.size()) {
    const std::size_t end = std::min(footer.find('\n', at), footer.size());
    const std::string line = footer.substr(at, end - at);
    at = end + 1;
    if (line.starts_with("  ")) {
      text += concat(kParagraph, literal(std::vector{line}));
    } else if (!line.empty()) {
      text += concat(flows ? "" : kParagraph, plain(line), "\n");
    }
    flows = !line.empty() && !line.starts_with("  ");
  }
  return text;
}

std::string flags_text(const DescribedCommand& command) {
  std::string text;
  for (const char* const group : kGroups) {
    bool first = true;
    for (const DescribedOption& flag : command.flags) {
      if (flag.group != group) continue;
      if (first) text += concat(".SS ", group, "\n");
      first = false;
      text += entry(spelled(flag), flag.help);
    }
  }
  return text;
}

std::string command_text(const DescribedCommand& command) {
  std::string title = command.path;
  for (char& letter : title) letter = static_cast<char>(std::toupper(letter));
  std::string text = concat(".SH ", title, "\n", plain(command.summary), "\n");
  text += concat(kParagraph, literal(std::vector{usage_of(command)}));
  for (const DescribedOption& one : command.arguments) text += entry(one.value, one.help);
  text += flags_text(command);
  text += footer_text(command.footer);
  return command.examples.empty() ? text : concat(text, kParagraph, literal(command.examples));
}

}  // namespace

std::string man_page(const DescribedCommand& program) {
  std::string text = concat(".TH TTRACE 1 \"\" \"ttrace ", version(), "\"\n");
  text +=
      concat(".SH NAME\nttrace \\- ", plain(program.summary.substr(program.path.size() + 1)), "\n");
  text += concat(".SH SYNOPSIS\n", plain(usage_of(program)), "\n.SH COMMANDS\n");
  for (const DescribedCommand& command : program.commands) {
    text += entry(command.name, command.summary);
  }
  text += concat(".SH OPTIONS OF EVERY COMMAND\n", flags_text(program), ".SH EXIT STATUS\n",
                 footer_text(program.footer).substr(kParagraph.size()), ".SH EXAMPLES\n",
                 literal(program.examples));
  for (const DescribedCommand* command : all_commands(program)) {
    if (command != &program) text += command_text(*command);
  }
  return text;
}

}  // namespace ttrace::app
