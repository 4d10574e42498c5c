// A run that was measured against itself, for the checks of what follows its backward.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>

#include "measure/backend.h"
#include "specification/specification.h"
#include "trace/source.h"

namespace ttrace::audit {

// What is known of the tensors of a run from measuring it against itself.
struct MeasuredRun {
  const trace::Source& run;
  const measure::ExecutionContext& execution;
  const std::map<trace::TensorKey, double>& norms;  // ‖x‖, of those that could be read
  // The parameters that get gradients; nothing if no specification says so.
  std::optional<std::set<std::string>> trained;
  const specification::Specification* specification = nullptr;
};

using EntriesByKey = std::map<trace::TensorKey, const trace::TensorEntry*>;

// All tensors of the run, which must outlive them.
inline EntriesByKey entries_of(const trace::Source& run) {
  EntriesByKey entries;
  for (const trace::TensorEntry& entry : run.manifest().tensors) entries.emplace(entry.key, &entry);
  return entries;
}

}  // namespace ttrace::audit
