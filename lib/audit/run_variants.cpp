#include "audit/run_variants.h"

#include <algorithm>
#include <vector>

#include "audit/update_formulas.h"
#include "specification/primitives/shape_rules.h"

namespace ttrace::audit {

RunVariants::RunVariants(const specification::Specification& specification,
                         const trace::Manifest& manifest)
    : specification_(specification) {
  if (specification.variants.empty()) {
    if (!specification.decided_by_values) return;
    for (const trace::TensorEntry& entry : manifest.tensors) {
      if (!entry.key.microbatch || entry.microbatches) continue;
      const auto number = specification.find(entry.key);
      if (!number || specification::fits(specification.tensors[*number].shape, entry.shape)) {
        continue;
      }
      other_sizes_.insert({entry.key.step, entry.key.microbatch});
    }
    return;
  }
  std::map<Microbatch, std::vector<const trace::TensorEntry*>> recorded;
  for (const trace::TensorEntry& entry : manifest.tensors) {
    if (!entry.key.microbatch || entry.microbatches) continue;
    recorded[{entry.key.step, entry.key.microbatch}].push_back(&entry);
  }
  for (const auto& [microbatch, entries] : recorded) {
    std::pair<std::size_t, std::size_t> most;
    for (const specification::Specification& variant : specification.variants) {
      if (variant.microbatch && variant.microbatch != microbatch.second) continue;
      std::size_t found = 0;
      bool is_other = false;
      for (const trace::TensorEntry* entry : entries) {
        const auto number = variant.find(entry->key);
        if (!number) continue;
        ++found;
        is_other = is_other || !specification::fits(variant.tensors[*number].shape, entry->shape);
      }
      const std::pair<std::size_t, std::size_t> held{found, variant.tensors.size()};
      if (is_other || found == 0 || held <= most) continue;
      most = held;
      variants_[microbatch] = &variant;
    }
  }
}

const specification::Specification& RunVariants::of(const trace::TensorKey& key) const {
  if (is_left_by_step(key.kind)) {
    const auto of_step = std::ranges::find_if(
        specification_.updates, [&](const auto& one) { return one.update->step == key.step; });
    return of_step == specification_.updates.end() ? specification_ : *of_step;
  }
  if (!key.microbatch) return specification_;
  const auto found = variants_.find({key.step, key.microbatch});
  return found == variants_.end() ? specification_ : *found->second;
}

}  // namespace ttrace::audit
