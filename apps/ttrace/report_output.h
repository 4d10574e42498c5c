// Where the report of a comparison goes: standard output (or stderr, where the JSON takes that),
// and the files that were asked for.
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
  int version = 2;  // of the JSON
  bool all_slices = false;

  void add_to(CLI::App& command);
};

class ReportOutput {
 public:
  // Opens the files. `flags` must outlive this.
  explicit ReportOutput(const ReportFlags& flags) : flags_(flags), json_(flags.json) {}

  // Writes all there is to write and returns the exit code. Throws an input error, after the answer
  // is out, if a disk does not take a file.
  int write(const comparison::CompareReport& report);

 private:
  void print_text(const comparison::CompareReport& report) const;

  const ReportFlags& flags_;
  OutputFile json_;
};

}  // namespace ttrace::app
