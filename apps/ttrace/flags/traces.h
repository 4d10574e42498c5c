// What a command reads: the traces of a pair, noise runs, layouts, a specification.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "flags/selection.h"
#include "local_files.h"

namespace ttrace::app {

// REF, which a command requires by ->required().
CLI::Option* add_reference(CLI::App& command, std::string& path);
void add_noise_flag(CLI::App& command, std::vector<std::string>& paths);
void add_layout_flag(CLI::App& command, std::string& path);
void add_specification_flag(CLI::App& command, std::string& path);

// The flags of commands that judge a candidate against a reference.
struct JudgedPairFlags {
  std::string reference;
  std::string candidate;
  std::vector<std::string> noise;
  std::string tolerance;
  std::string layout;
  std::string map;
  unsigned threads = 0;
  LocalFiles local;
  SelectionFlags selection;

  // `candidate_is`: the help text of RUN.
  void add_to(CLI::App& command, const std::string& candidate_is);
  // All but the two traces.
  void add_rules_to(CLI::App& command);
};

}  // namespace ttrace::app
