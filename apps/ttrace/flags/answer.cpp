#include "flags/answer.h"

#include "base/text.h"
#include "flags/flag_group.h"
#include "report/file_formats.h"

namespace ttrace::app {
namespace {

using report::file_formats;
using report::kJsonFormat;

}  // namespace

AnswerFlags::AnswerFlags() : files(file_formats().size()) {}

void AnswerFlags::add_to(CLI::App& command, const char* all_means, bool page) {
  const FlagGroup answer(command, kAnswer);
  if (page) {
    add_files_to(command);
  } else {
    answer.value("--json FILE", json(), file_formats()[kJsonFormat].help);
  }
  answer.flag("--all", all, all_means);
  // A command without a page has no findings.
  if (page) {
    answer.value("--explain N", explain, "also explain the finding of this number, from 1");
  }
  answer.choice("--format", format, {"text", "line"},
                "one screen, or the first line alone, never folded");
  add_colour_flag(command, colour);
}

void AnswerFlags::add_files_to(CLI::App& command, bool page) {
  const FlagGroup answer(command, kAnswer);
  for (std::size_t i = 0; i < files.size(); ++i) {
    if (i == report::kPageFormat && !page) continue;
    const char* const value = i == report::kMarkdownFormat ? " FILE|github" : " FILE";
    answer.value(flag_of_format(i) + value, files[i], file_formats()[i].help);
  }
  if (!page) return;
  answer.choice("--json-detail", detail, {"all", "findings"},
                "which tensors the JSON has the numbers of");
}

const std::string& AnswerFlags::json() const { return files[kJsonFormat]; }
std::string& AnswerFlags::json() { return files[kJsonFormat]; }
std::string& AnswerFlags::page() { return files[report::kPageFormat]; }

void add_colour_flag(CLI::App& command, std::string& colour) {
  FlagGroup(command, kAnswer)
      .choice("--color", colour, {"auto", "always", "never"}, "when to use colour");
}

void add_slices_flag(CLI::App& command, bool& all_slices) {
  FlagGroup(command, kAnswer)
      .flag("--all-slices", all_slices,
            "every slice beyond its tolerance in the JSON, not the worst four");
}

CLI::Option* add_output_flag(CLI::App& command, std::string& path, const char* help) {
  return FlagGroup(command, kAnswer).value("-o,--output FILE", path, help);
}

std::string flag_of_format(std::size_t format) {
  return base::concat("--", file_formats()[format].name);
}

bool is_github(std::size_t format, const std::string& file) {
  return format == report::kMarkdownFormat && file == "github";
}

}  // namespace ttrace::app
