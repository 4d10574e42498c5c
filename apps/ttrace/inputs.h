// The inputs of commands: flags that name them, and the opened traces, rules and tolerances.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comparison/selection.h"
#include "engine/compare_traces.h"
#include "judge/calibration.h"
#include "specification/specification.h"
#include "trace/source.h"

namespace ttrace::app {

// The local date, such as "2026-11-21". Rules that skip tensors may end on a day.
std::string today();

// Adds --layout, which has the same meaning for every command that reads a run.
void add_layout_flag(CLI::App& command, std::string& path);

// Opens a trace and logs it under -v.
std::unique_ptr<trace::Source> open_and_log(const std::string& path);

// A sentence for each rank file in the folder `run` that is not of the manifest: it belongs to
// another run, or to a larger mesh.
std::vector<std::string> files_of_no_rank(const std::string& run, const trace::Source& source);

// Reads a specification within what --memory allows, of which `held` bytes are in use already.
specification::Specification read_specification(const std::string& path, std::uint64_t held = 0);

// An open trace. Layout rules, if given, replace its manifest.
class OpenedTrace {
 public:
  // `layout_rules`: a file, or empty.
  OpenedTrace(const std::string& path, const std::string& layout_rules);

  const trace::Source& operator*() const { return overridden_ ? *overridden_ : *stored_; }

 private:
  std::unique_ptr<trace::Source> stored_;
  std::unique_ptr<trace::Source> overridden_;
};

// --only, --skip, --kind, --step. The kinds are parsed when the command runs.
struct SelectionFlags {
  std::vector<std::string> only;
  std::vector<std::string> skip;
  std::vector<std::string> kinds;
  std::vector<std::uint64_t> steps;

  void add_to(CLI::App& command);
  // Throws a usage error on an unknown kind.
  comparison::Selection selection() const;
};

// The flags of commands that judge a candidate against a reference.
struct JudgedPairFlags {
  std::string reference;
  std::string candidate;
  std::vector<std::string> noise;
  std::string tolerance;
  std::string layout;
  std::string map;
  unsigned threads = 0;
  SelectionFlags selection;

  // `candidate_is`: the help text of RUN.
  void add_to(CLI::App& command, const std::string& candidate_is);
  // Throws a usage error if `output` would overwrite one of the files that are read.
  void require_not_input(const std::string& output) const;
};

// The traces, noise runs and rules that JudgedPairFlags name, opened.
class JudgedPair {
 public:
  // Throws an input error naming the file that cannot be read.
  explicit JudgedPair(const JudgedPairFlags& flags);

  const trace::Source& reference() const { return *reference_; }
  const trace::Source& candidate() const { return **candidate_; }
  const std::vector<const trace::Source*>& noise() const { return noise_; }
  // Valid as long as this object.
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
