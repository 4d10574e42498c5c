// Writes the report of a comparison: text to stdout (to stderr if the JSON goes to stdout), and the
// requested files.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "comparison/result.h"
#include "outputs.h"

namespace ttrace::app {

struct ReportFlags {
  std::string json;
  std::string colour = "auto";
  bool all = false;
  int version = 2;  // of the JSON report
  bool all_slices = false;

  void add_to(CLI::App& command);
};

class ReportOutput {
 public:
  // Opens the files. `flags` must outlive this.
  explicit ReportOutput(const ReportFlags& flags) : flags_(flags), json_(flags.json) {}

  // Writes all outputs and returns the exit code. If a file cannot be written, throws an input
  // error after the answer has been printed.
  int write(const comparison::CompareReport& report);

 private:
  void print_text(const comparison::CompareReport& report) const;

  const ReportFlags& flags_;
  OutputFile json_;
};

}  // namespace ttrace::app
