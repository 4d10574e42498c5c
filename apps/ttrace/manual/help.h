// What `--help` prints: usage, examples, the flags in groups, the exit codes; at most 100 columns.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace ttrace::app {

class HelpFormatter : public CLI::Formatter {
 public:
  std::string make_help(const CLI::App* app, std::string name,
                        CLI::AppFormatMode mode) const override;
};

}  // namespace ttrace::app
