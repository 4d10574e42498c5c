#include "separate_files.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "base/error.h"
#include "base/message.h"
#include "flags/answer.h"
#include "flags/flag_group.h"
#include "outputs.h"
#include "report/file_formats.h"

namespace ttrace::app {
namespace {

namespace fs = std::filesystem;

// Values that name files, and whether as traces.
struct FileValue {
  std::string_view name;
  bool trace = false;
};
constexpr std::array<FileValue, 10> kFileValues{{{"FILE"},
                                                 {"REPORT"},
                                                 {"OLD"},
                                                 {"NEW"},
                                                 {"PART"},
                                                 {"FOLDER"},
                                                 {"RUN", true},
                                                 {"REF", true},
                                                 {"TRACE", true},
                                                 {"NOISE", true}}};

// Flags whose file is written, beside those of the formats of an answer.
constexpr std::array<std::string_view, 5> kWritten{"--output", "--resume", "--map-starter",
                                                   "--plan", "--out"};

bool is_written(const std::string& flag) {
  if (std::find(kWritten.begin(), kWritten.end(), flag) != kWritten.end()) return true;
  const auto formats = report::file_formats();
  for (std::size_t i = 0; i < formats.size(); ++i) {
    if (flag == flag_of_format(i)) return true;
  }
  return false;
}

// The file that a value names: that of the step's summary for "github".
std::string path_of(const std::string& flag, const std::string& value) {
  if (flag != flag_of_format(report::kMarkdownFormat) ||
      !is_github(report::kMarkdownFormat, value)) {
    return value;
  }
  const char* const summary = std::getenv(kGithubSummary);
  return summary == nullptr ? "" : summary;
}

void add_files_of(const CLI::App& command, std::vector<GivenFile>& files) {
  for (const CLI::Option* option : command.get_options()) {
    const bool positional = option->get_positional();
    const std::string flag = option->get_name(positional);
    const std::string value = positional ? flag : value_name(*option);
    const std::string_view name = std::string_view(value).substr(0, value.find('|'));
    const auto* const known = std::find_if(kFileValues.begin(), kFileValues.end(),
                                           [&](const FileValue& one) { return one.name == name; });
    if (option->count() == 0 || known == kFileValues.end()) continue;
    const bool written = !positional && is_written(flag);
    for (const std::string& path : option->results()) {
      files.push_back({flag, path_of(flag, path), written, known->trace});
    }
  }
  for (const CLI::App* chosen : command.get_subcommands()) add_files_of(*chosen, files);
}

// The absolute path without links, as far as it exists.
fs::path resolved(const std::string& path) {
  std::error_code error;
  const fs::path absolute = fs::absolute(path, error);
  const fs::path whole = fs::weakly_canonical(absolute, error);
  return error ? absolute.lexically_normal() : whole;
}

bool same_file(const std::string& a, const std::string& b) {
  std::error_code error;
  // Also two hard links, and two spellings where the file system takes them for one.
  return fs::equivalent(a, b, error) || resolved(a) == resolved(b);
}

void require_two(const GivenFile& output, const GivenFile& other) {
  if (is_stdout(output.path) != is_stdout(other.path)) return;
  if (other.trace) require_not_of_trace(output.path, other.path);
  if (!same_file(output.path, other.path)) return;
  throw base::usage_error(
      base::render({"{flag} and {other} name the same file, {path}; give each one of its own",
                    {{"flag", output.flag}, {"other", other.flag}, {"path", output.path}}}));
}

}  // namespace

void require_separate(const std::vector<GivenFile>& files) {
  for (const GivenFile& output : files) {
    if (!output.written || output.path.empty()) continue;
    for (const GivenFile& other : files) {
      if (&other != &output && !other.path.empty()) require_two(output, other);
    }
  }
}

void require_separate_files(const CLI::App& app) {
  std::vector<GivenFile> files;
  add_files_of(app, files);
  require_separate(files);
}

}  // namespace ttrace::app
