#include "engine/tensors_of.h"

#include <set>

#include "layout/rows.h"

namespace ttrace::engine {

std::vector<layout::ViewPtr> tensors_of(const trace::Manifest& manifest) {
  std::set<trace::TensorKey> indices;
  for (const trace::TensorEntry& entry : manifest.tensors) {
    for (const auto& [axis, placement] : entry.placements) {
      if (const auto* rows = std::get_if<trace::Rows>(&placement)) {
        indices.insert(layout::index_key(entry.key, rows->index));
      }
    }
  }
  std::vector<layout::ViewPtr> tensors;
  for (const trace::TensorEntry& entry : manifest.tensors) {
    if (!indices.contains(entry.key)) tensors.push_back(layout::view_of(entry));
  }
  return tensors;
}

}  // namespace ttrace::engine
