// What every command that judges a pair of traces is given, and what it opens.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "command.h"
#include "engine/compare_traces.h"
#include "judge/calibration.h"
#include "rules_files.h"
#include "trace/source.h"

namespace ttrace::app {

struct JudgedPairFlags {
  std::string reference;
  std::string candidate;
  std::vector<std::string> noise;
  std::string tolerance;
  std::string layout;
  std::string map;
  unsigned threads = 0;
  SelectionFlags selection;

  // `candidate_is`: what RUN is to this command.
  void add_to(CLI::App& command, const std::string& candidate_is);
  // Throws a usage error if `output` would overwrite one of the files that are read.
  void require_not_input(const std::string& output) const;
};

class JudgedPair {
 public:
  // Throws an input error naming the file that cannot be read.
  explicit JudgedPair(const JudgedPairFlags& flags);

  const trace::Source& reference() const { return *reference_; }
  const trace::Source& candidate() const { return **candidate_; }
  const std::vector<const trace::Source*>& noise() const { return noise_; }
  // Valid as long as this is.
  engine::CompareOptions options() const;

 private:
  const JudgedPairFlags& flags_;
  std::unique_ptr<trace::Source> reference_;
  std::optional<OpenedTrace> candidate_;
  std::vector<std::unique_ptr<trace::Source>> runs_;
  std::vector<const trace::Source*> noise_;
  std::optional<layout::MapRules> map_;
  std::optional<judge::Calibration> calibration_;
};

}  // namespace ttrace::app
