// Traces as rules files say they are to be seen.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "trace/source.h"

namespace ttrace::app {

// The local date, as "2026-11-21": rules that skip may end on a day.
std::string today();

// --layout, which means the same for every command that reads a run.
void add_layout_flag(CLI::App& command, std::string& path);

// Opens a trace, and says so under -v.
std::unique_ptr<trace::Source> open_told(const std::string& path);

// An open trace, with another manifest if layout rules were given.
class OpenedTrace {
 public:
  // `layout_rules`: a file, or empty.
  OpenedTrace(const std::string& path, const std::string& layout_rules);

  const trace::Source& operator*() const { return overridden_ ? *overridden_ : *stored_; }

 private:
  std::unique_ptr<trace::Source> stored_;
  std::unique_ptr<trace::Source> overridden_;
};

}  // namespace ttrace::app
