// How a command answers: the files that it also writes, and how much it prints.
#pragma once

#include <CLI/CLI.hpp>
#include <cstddef>
#include <string>
#include <vector>

namespace ttrace::app {

struct AnswerFlags {
  std::vector<std::string> files;  // by format, in the order of the table; empty: not asked for
  std::string detail = "all";      // of the JSON
  std::string colour = "auto";
  std::string format = "text";
  bool all = false;
  std::size_t explain = 0;  // the finding to explain after the answer; 0: none

  AnswerFlags();

  // `all_means`: the help of --all. `page`: whether the command's answer has a page.
  void add_to(CLI::App& command, const char* all_means, bool page = true);
  // Adds only the flags of files. `page`: as above.
  void add_files_to(CLI::App& command, bool page = true);
  const std::string& json() const;
  std::string& json();
  std::string& page();
};

// The help of --all.
inline constexpr const char* kAllOfComparison = "print every finding in full and every tensor";

void add_colour_flag(CLI::App& command, std::string& colour);
void add_slices_flag(CLI::App& command, bool& all_slices);

// Adds -o, --output.
CLI::Option* add_output_flag(CLI::App& command, std::string& path, const char* help);

// The flag of a format of files, as in "--json".
std::string flag_of_format(std::size_t format);

// Whether the file is the summary of a job: several commands append to it, and none replaces it.
bool is_github(std::size_t format, const std::string& file);

// The variable of GitHub Actions that names the file of a job's summary.
inline constexpr const char* kGithubSummary = "GITHUB_STEP_SUMMARY";

}  // namespace ttrace::app
