// The story of `ttrace lint`: is this trace what its manifest says, before any number is read?
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "trace/manifest.h"
#include "trace/source.h"

namespace ttrace::engine {

struct LintOptions {
  bool manifest_only = false;  // no rank file is opened
};

struct LintResult {
  std::vector<std::string> findings;
  std::vector<std::string> warnings;  // layouts that are sound and rarely meant
  std::uint64_t tensors = 0;
  std::uint64_t ranks = 0;
  std::uint64_t datasets = 0;  // looked at
};

// Contradictory layouts, ranks that cannot be read, datasets that are absent or of another shape or
// type than the placement gives their rank, names in the data flow that no module has. Warns of
// activations whose cut dimension the ranks along the axis do not divide: a layout that was given
// by hand more often names a wrong dimension than an uneven cut.
LintResult lint_trace(const trace::Source& source, const LintOptions& options);

// The story of `ttrace lint --write`: a run whose manifest.json was lost gets one again.

struct RebuiltManifest {
  std::string text;                   // what manifest.json is to say
  std::uint64_t parts = 0;            // ranks whose part went into it
  std::uint64_t ranks = 0;            // of the run
  std::vector<std::string> findings;  // parts that cannot be read, ranks that are lost
};

// Merges the parts of `ranks` (ascending), which `part_of` reads; a rank for which it throws an
// input error is lost, and reported. `run` is named in messages. Throws an input error if there is
// no part at all, or if parts contradict each other (layout::ManifestMerge).
RebuiltManifest rebuild_manifest(const std::string& run, const std::vector<std::uint64_t>& ranks,
                                 const std::function<trace::Manifest(std::uint64_t)>& part_of);

}  // namespace ttrace::engine
