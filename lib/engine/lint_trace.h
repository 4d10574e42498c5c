// The story of `ttrace lint`: is this trace what its manifest says, before any number is read?
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trace/source.h"

namespace ttrace::engine {

struct LintOptions {
  bool manifest_only = false;  // no rank file is opened
};

struct LintResult {
  std::vector<std::string> findings;
  std::uint64_t tensors = 0;
  std::uint64_t ranks = 0;
  std::uint64_t datasets = 0;  // looked at
};

// Contradictory layouts, ranks that cannot be read, datasets that are absent or of another shape or
// type than the placement gives their rank, names in the data flow that no module has.
LintResult lint_trace(const trace::Source& source, const LintOptions& options);

}  // namespace ttrace::engine
