// Where to look first for a cause: each line is what a real bug with this cause was.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "answer/finding.h"
#include "answer/trace_facts.h"
#include "localize/phase.h"
#include "trace/key.h"

namespace ttrace::report {

// What a run must have for a line to say something of it.
enum class Needs {
  kNothing,
  kRanks,           // several
  kClipping,        // a cause that names the norm that clipped
  kEmbedding,       // a module that looks rows up, on several ranks
  kNarrowProducts,  // a precision of 8 bits
  kOtherZeros,      // a cause by which other elements are zero
};

struct LookAt {
  std::string_view cause;
  std::optional<localize::Phase> phase;  // in which the line is right; nothing: in any
  std::string_view axis;                 // the mesh axis that it is about, or empty: any
  std::string_view names;                // of tensors that it is about, as a glob
  std::string_view text;
  std::string_view bug;    // that proves it: where it happened; or empty
  std::string_view shows;  // its number in the gallery of tests/gallery/bugs.py, or empty
  Needs needs = Needs::kRanks;
};

// What to look at, and the bug that proves it.
std::string advice_of(const LookAt& line);

// All lines; of one cause, those for certain names and axes first.
const std::vector<LookAt>& look_at_lines();

// The line for a finding about `shown`, by its first cause; empty where no cause is known, or no
// real bug of such a module in such a run had it. `run`: the candidate, or the only one.
std::string look_at(const answer::Finding& finding, const trace::TensorKey& shown,
                    const answer::TraceFacts& run);

}  // namespace ttrace::report
