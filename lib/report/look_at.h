// Where to look first for a cause: each line is what a real bug with this cause was.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "localize/phase.h"
#include "trace/manifest.h"

namespace ttrace::report {

struct LookAt {
  std::string_view cause;
  std::optional<localize::Phase> phase;  // in which the line is right; nothing: in any
  std::string_view axis;                 // the mesh axis that it is about, or empty: any
  std::string_view names;                // of tensors that it is about, as a glob
  std::string_view text;
  std::string_view bug;    // that proves it: where it happened
  std::string_view shows;  // its number in the gallery of tests/gallery/bugs.py, or empty
};

// What a line is looked up for.
struct LookAtFinding {
  std::string_view cause;
  localize::Phase phase = localize::Phase::kForward;
  std::string_view axis = {};                          // that the cause names, or empty
  std::string_view name = {};                          // of the tensor
  const std::vector<trace::MeshAxis>* mesh = nullptr;  // where the cause names no axis
};

// All lines; of one cause, those for certain names and axes first.
const std::vector<LookAt>& look_at_lines();

// The line for a finding; empty where no real bug is known.
std::string look_at(const LookAtFinding& finding);

}  // namespace ttrace::report
