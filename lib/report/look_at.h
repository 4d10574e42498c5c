// Where to look first for a cause: each line is what a real bug with this cause was.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "answer/finding.h"
#include "localize/phase.h"
#include "trace/key.h"
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

// All lines; of one cause, those for certain names and axes first.
const std::vector<LookAt>& look_at_lines();

// The line for a finding about `shown`, by its first cause; empty where no cause is known, or no
// real bug had it. `mesh`: of the run, for causes that name no axis.
std::string look_at(const answer::Finding& finding, const trace::TensorKey& shown,
                    const std::vector<trace::MeshAxis>& mesh);

}  // namespace ttrace::report
