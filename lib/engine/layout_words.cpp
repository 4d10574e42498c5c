#include "engine/layout_words.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "base/concat.h"
#include "base/number_text.h"
#include "diagnosis/separating_axes.h"
#include "layout/plan.h"

namespace ttrace::engine {
namespace {

using base::concat;

double mean_square(const compare::TileStats& stats) {
  return stats.finite == 0 ? 0 : stats.sum_d2 / static_cast<double>(stats.finite);
}

std::string axis_words(const trace::Placement& placement, const std::string& axis) {
  if (const auto* shard = std::get_if<trace::Shard>(&placement)) {
    return concat("dimension ", shard->dim, " cut over ", axis);
  }
  if (const auto* partial = std::get_if<trace::Partial>(&placement)) {
    return concat("partial ", reduction_name(partial->reduction), " over ", axis);
  }
  if (const auto* only = std::get_if<trace::Only>(&placement)) {
    return concat("only on ", axis, " ", only->coordinate);
  }
  return concat("replicas over ", axis);
}

std::string nonfinite_words(const compare::TileStats& stats) {
  std::string text =
      concat(stats.nonfinite_candidate, " NaN or Inf in the candidate, ", stats.nonfinite_reference,
             " in the reference, ", stats.nonfinite_different, " of them not the same");
  if (stats.first_nonfinite_difference) {
    text += concat(", first at ", tensor::to_string(*stats.first_nonfinite_difference));
  }
  return text;
}

std::string slice_words(const compare::Measurement& measurement) {
  const auto& blocks = measurement.blocks;
  if (blocks.size() < 2) {
    return concat(measurement.total.unequal, " of ", measurement.total.elements,
                  " elements differ");
  }
  const auto differing = std::count_if(blocks.begin(), blocks.end(),
                                       [](const auto& block) { return block.stats.unequal > 0; });
  const compare::BlockStats* worst = worst_block(measurement);
  if (worst == nullptr) return "";
  const double share = worst->stats.sum_d2 / measurement.total.sum_d2;
  // Standing out: more than twice what an even spread would give it.
  if (share * static_cast<double>(blocks.size()) > 2 || differing == 1) {
    return concat(base::short_number(100 * share), " % of the error is in ",
                  tensor::to_string(worst->box), " on rank ", worst->ranks.front(), "; ", differing,
                  " of ", blocks.size(), " shards differ");
  }
  return concat("spread over ", differing, " of ", blocks.size(), " shards, none stands out; ",
                measurement.total.unequal, " of ", measurement.total.elements, " elements differ");
}

}  // namespace

const compare::BlockStats* worst_block(const compare::Measurement& measurement) {
  const compare::BlockStats* worst = nullptr;
  for (const compare::BlockStats& block : measurement.blocks) {
    const double size = mean_square(block.stats);
    if (size > 0 && (worst == nullptr || size > mean_square(worst->stats))) worst = &block;
  }
  return worst;
}

std::string merged_words(const trace::Source& candidate, const trace::TensorEntry& entry) {
  const trace::Mesh& mesh = candidate.manifest().meshes.at(entry.mesh);
  const layout::Plan plan = layout::plan_layout(entry, mesh);
  std::size_t pieces = 0;
  std::set<tensor::Shape> shapes;
  for (const layout::Block& block : plan.blocks) {
    shapes.insert(block.global.extent);
    for (const layout::Term& term : block.terms) pieces += term.replicas.size();
  }
  std::string text = concat(pieces, " × ");
  if (shapes.empty()) {
    text += "[]";
  } else {
    text += tensor::to_string(*shapes.rbegin());
    if (shapes.size() > 1) text += concat(" down to ", tensor::to_string(*shapes.begin()));
  }
  text += concat(" -> ", tensor::to_string(entry.shape));
  for (const trace::MeshAxis& axis : mesh.axes) {
    if (axis.size == 1) continue;
    const auto found = entry.placements.find(axis.name);
    text += concat(", ",
                   axis_words(found == entry.placements.end() ? trace::Placement{} : found->second,
                              axis.name));
  }
  return text;
}

std::string where_words(const compare::TensorRef& candidate, const report::Result& result) {
  const compare::Measurement& measurement = result.comparison->measurement;
  if (result.outcome == verdict::Outcome::kReplicaConflict) {
    return concat(diagnosis::class_words(candidate, measurement.replicas),
                  " hold different values, and should be replicas");
  }
  if (measurement.total.nonfinite_different > 0) return nonfinite_words(measurement.total);
  return slice_words(measurement);
}

std::vector<std::uint64_t> ranks_with_error(const report::Result& result) {
  const compare::Measurement& measurement = result.comparison->measurement;
  std::set<std::uint64_t> ranks;
  const bool conflict = result.outcome == verdict::Outcome::kReplicaConflict;
  if (conflict) {
    for (const auto& members : measurement.replicas.classes) {
      ranks.insert(members.begin(), members.end());
    }
    return {ranks.begin(), ranks.end()};
  }
  const double even = mean_square(measurement.total);
  for (const compare::BlockStats& block : measurement.blocks) {
    const bool more = mean_square(block.stats) >= even && block.stats.unequal > 0;
    if (more || block.stats.nonfinite_different > 0) {
      ranks.insert(block.ranks.begin(), block.ranks.end());
    }
  }
  return {ranks.begin(), ranks.end()};
}

}  // namespace ttrace::engine
