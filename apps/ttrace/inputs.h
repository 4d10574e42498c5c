// The inputs of commands, opened: traces, rules and tolerances.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/compare_traces.h"
#include "flags/traces.h"
#include "judge/calibration.h"
#include "specification/specification.h"
#include "trace/source.h"

namespace ttrace::app {

// The local date, such as "2026-11-21". Rules that skip tensors may end on a day.
std::string today();

// Opens a trace and logs it under -v.
std::unique_ptr<trace::Source> open_and_log(const std::string& path);

// A sentence for each rank file in the folder `run` that the manifest does not have: it belongs to
// another run, or to a larger mesh.
std::vector<std::string> files_of_no_rank(const std::string& run, const trace::Source& source);

// Reads a specification within what --memory allows, of which `held` bytes are in use already.
specification::Specification read_specification(const std::string& path, std::uint64_t held = 0);

// An open trace. Layout rules, if given, replace its manifest.
class OpenedTrace {
 public:
  // `layout_rules`: a file, or empty.
  OpenedTrace(const std::string& path, const std::string& layout_rules);
  OpenedTrace(std::unique_ptr<trace::Source> opened, const std::string& layout_rules);

  const trace::Source& operator*() const { return overridden_ ? *overridden_ : *stored_; }

 private:
  std::unique_ptr<trace::Source> stored_;
  std::unique_ptr<trace::Source> overridden_;
};

// The traces, noise runs and rules that JudgedPairFlags name, opened.
class JudgedPair {
 public:
  // `candidate`: null where it is opened by its path. Throws an input error naming the file that
  // cannot be read.
  explicit JudgedPair(const JudgedPairFlags& flags,
                      std::unique_ptr<trace::Source> candidate = nullptr);

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
