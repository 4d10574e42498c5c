#include "audit/measured_run.h"

namespace ttrace::audit {

EntriesByKey entries_of(const trace::Source& run) {
  EntriesByKey entries;
  for (const trace::TensorEntry& entry : run.manifest().tensors) entries.emplace(entry.key, &entry);
  return entries;
}

}  // namespace ttrace::audit
