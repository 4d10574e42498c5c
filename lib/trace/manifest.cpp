#include "trace/manifest.h"

#include <algorithm>

#include "base/text.h"

namespace ttrace::trace {

const Incomplete* incomplete_of(const Manifest& manifest, const TensorKey& key) {
  const std::vector<Incomplete>& all = manifest.run.incomplete;
  if (all.empty()) return nullptr;
  const auto found = std::find_if(all.begin(), all.end(), [id = id_of(key)](const auto& one) {
    return base::glob_match(one.tensors, id);
  });
  return found == all.end() ? nullptr : &*found;
}

std::optional<bool> was_asked_for(const Manifest& manifest, const TensorKey& key) {
  const auto& recorded = manifest.run.recorded;
  if (!recorded) return std::nullopt;
  const auto has = [](const auto& list, const auto& value) {
    return std::find(list.begin(), list.end(), value) != list.end();
  };
  // An index is always recorded: a tensor placed by rows cannot be read without it.
  if (key.kind != Kind::kIndex && !has(recorded->kinds, key.kind)) return false;
  if (!has(recorded->steps, key.step)) return false;
  const bool of_no_module = key.kind == Kind::kLoss || key.kind == Kind::kGradNorm ||
                            key.kind == Kind::kScalar || key.kind == Kind::kIndex;
  if (!recorded->modules || of_no_module) return true;
  const std::string module = module_of(key);
  return std::any_of(recorded->modules->begin(), recorded->modules->end(),
                     [&](const std::string& pattern) { return base::glob_match(pattern, module); });
}

}  // namespace ttrace::trace
