#include "engine/value_words.h"

#include <vector>

#include "base/error.h"
#include "base/number_text.h"
#include "layout/mesh_map.h"
#include "layout/unite_words.h"

namespace ttrace::engine {
namespace {

using base::concat;

std::string value_of(const compare::TensorRef& tensor, bool exact) {
  const auto reader = tensor.open(compare::Replicas::kFirstOnly);
  const tensor::Box box = tensor::whole(tensor.view->shape);
  if (exact) {
    std::vector<std::int64_t> value(1);
    reader->read_integers(box, value);
    return std::to_string(value[0]);
  }
  std::vector<double> value(1);
  reader->read(box, value);
  return base::nine_digits(value[0]);
}

// The tensor as `rank` alone has it, of axes that replicate it.
compare::TensorRef as_on(const compare::TensorRef& tensor, std::uint64_t rank) {
  const trace::Manifest& manifest = tensor.source->manifest();
  const layout::ViewPtr view =
      layout::with_entries(tensor.view, [&](const trace::TensorEntry& entry) {
        trace::TensorEntry changed = entry;
        const trace::Mesh& mesh = manifest.meshes.at(entry.mesh);
        const std::vector<std::uint64_t> at = layout::coordinates_of(mesh, rank);
        for (std::size_t a = 0; a < mesh.axes.size(); ++a) {
          const auto placed = entry.placements.find(mesh.axes[a].name);
          const bool copies = placed == entry.placements.end() ||
                              std::holds_alternative<trace::Replicate>(placed->second);
          if (!copies || mesh.axes[a].size == 1) continue;
          changed.placements[mesh.axes[a].name] = trace::Only{at[a]};
          changed.held_at.erase(mesh.axes[a].name);
        }
        return changed;
      });
  return {tensor.source, view};
}

}  // namespace

std::string value_words(const compare::TensorRef& reference, const compare::TensorRef& candidate,
                        const report::Result& result) {
  const compare::Measurement& measured = result.comparison->measurement;
  if (measured.total.elements != 1) return "";
  try {
    std::string text = concat("reference ", value_of(reference, result.exact), ", candidate ");
    if (!measured.replicas_differ) return concat(text, value_of(candidate, result.exact));
    bool first = true;
    for (const std::vector<std::uint64_t>& ranks : measured.replicas.classes) {
      text += concat(first ? "" : ", ", value_of(as_on(candidate, ranks.front()), result.exact),
                     " on ", layout::rank_words(ranks));
      first = false;
    }
    return text;
  } catch (const base::Error& error) {
    if (error.kind() != base::ErrorKind::kInput) throw;
    return "";
  }
}

}  // namespace ttrace::engine
