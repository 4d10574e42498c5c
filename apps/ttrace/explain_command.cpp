#include <unistd.h>

#include <charconv>
#include <iostream>
#include <memory>
#include <optional>

#include "answer/answer_json.h"
#include "base/deflate.h"
#include "base/error.h"
#include "command.h"
#include "report/explain_text.h"
#include "report/terminal_text.h"
#include "terminal.h"

namespace ttrace::app {
namespace {

struct ExplainFlags {
  std::string what;
  std::string report;
};

std::optional<std::size_t> number_in(const std::string& text) {
  std::size_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

int run_explain(const ExplainFlags& flags) {
  const report::TextStyle style{false, false, text_width(STDOUT_FILENO), {}};
  const auto number = number_in(flags.what);
  if (!number) {
    report::explain_word(flags.what, style, std::cout);
    return 0;
  }
  if (flags.report.empty()) {
    throw base::usage_error("finding ", *number, " of which report? `ttrace explain ", *number,
                            " REPORT.json`, made with --json; or --explain ", *number,
                            " on the command that found it");
  }
  report::explain_finding(*number,
                          answer::read_answer(base::read_report(flags.report), flags.report),
                          flags.report, style, std::cout);
  return 0;
}

constexpr const char* kHowToExplain =
    "Examples:\n"
    "  ttrace explain 1 report.json       the first finding of a report (--json report.json)\n"
    "  ttrace explain missing_reduction   a cause: what it means, and the bugs that it was\n"
    "  ttrace explain 'noise run'         a word of the reports\n"
    "\n"
    "Exit codes: 0 explained, 2 no such finding, cause or word, or an unreadable report.";

}  // namespace

void add_explain_command(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("explain", "explain a finding, a cause or a word");
  const auto flags = std::make_shared<ExplainFlags>();
  command->add_option("WHAT", flags->what, "the number of a finding, a cause, or a word")
      ->required();
  command->add_option("REPORT", flags->report, "a JSON report of compare, localize or audit");
  command->footer(kHowToExplain);
  command->callback([flags, &action] { action = [flags] { return run_explain(*flags); }; });
}

}  // namespace ttrace::app
