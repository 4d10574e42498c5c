#include "localize/describe_layout.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "base/display_limits.h"
#include "base/error.h"
#include "base/text.h"
#include "localize/causes/separating_axes.h"
#include "localize/explain.h"
#include "measure/shard_reader.h"

namespace ttrace::localize {
namespace {

using base::concat;

double mean_square(const measure::TileStats& stats) {
  return stats.finite == 0 ? 0 : stats.sum_d2 / static_cast<double>(stats.finite);
}

// "dp", or "dp {0, 2}" where only those coordinates hold the tensor.
std::string describe_held(const trace::TensorEntry& entry, const std::string& axis) {
  const auto held = entry.held_at.find(axis);
  if (held == entry.held_at.end()) return axis;
  std::string text;
  for (const std::uint64_t coordinate : held->second) {
    text += concat(text.empty() ? "" : ", ", coordinate);
  }
  return concat(axis, " {", text, "}");
}

std::string describe_nonfinite(const measure::TileStats& stats) {
  std::string text =
      concat(stats.nonfinite_candidate, " NaN or Inf in the candidate, ", stats.nonfinite_reference,
             " in the reference, ", stats.nonfinite_different, " of them not the same");
  if (stats.first_nonfinite_difference) {
    text += concat(", first at ", tensor::to_string(*stats.first_nonfinite_difference));
  }
  return text;
}

// "all of 2 of 4 shards, ranks {1, 3}" or "128 of 256 elements of 1 of 4 shards, rank 1".
std::string describe_nonfinite_shards(const measure::Measurement& measurement) {
  std::uint64_t elements = 0;
  std::uint64_t differing = 0;
  std::size_t shards = 0;
  std::set<std::uint64_t> ranks;
  for (const measure::BlockStats& block : measurement.blocks) {
    if (block.stats.nonfinite_different == 0) continue;
    ++shards;
    elements += block.stats.elements;
    differing += block.stats.nonfinite_different;
    ranks.insert(block.owner->ranks.begin(), block.owner->ranks.end());
  }
  if (shards == 0) return "";
  return concat("; ",
                differing == elements
                    ? std::string("all")
                    : concat(differing, " of ", base::plural(elements, "element")),
                " of ", shards, " of ", base::plural(measurement.blocks.size(), "shard"), ", ",
                layout::describe_ranks({ranks.begin(), ranks.end()}));
}

std::string describe_boxes(const std::vector<tensor::Box>& boxes) {
  std::string text = tensor::to_string(boxes[0]);
  if (boxes.size() == 2) text += concat(" and ", tensor::to_string(boxes[1]));
  if (boxes.size() > 2) text += concat(" and ", boxes.size() - 1, " more boxes");
  return text;
}

std::string named_part(const trace::TensorEntry& part, const trace::TensorKey& whole) {
  const std::string words = layout::describe_part(part.key, whole);
  return words.empty() ? part.key.name : words;
}

std::string percent_of(double share) { return concat(base::short_number(100 * share), " %"); }

std::string describe_shard(const measure::BlockStats& block) {
  return concat(block.owner->ranks.empty() ? std::string("in padding")
                                           : concat("on rank ", block.owner->ranks.front()),
                " (", block.owner->part.empty() ? "" : concat(block.owner->part, ", "),
                describe_boxes(block.owner->boxes), ")");
}

std::string describe_elements(const measure::TileStats& stats) {
  return concat(stats.unequal, " of ", stats.elements, " elements differ");
}

// Every shard's share of the squared error, or of the four with most of it.
std::string describe_shares(const measure::Measurement& measurement) {
  const auto& blocks = measurement.blocks;
  const double all = measurement.total.sum_d2;
  std::vector<const measure::BlockStats*> differing;
  for (const measure::BlockStats& block : blocks) {
    if (block.stats.unequal > 0) differing.push_back(&block);
  }
  std::stable_sort(differing.begin(), differing.end(),
                   [](const auto* a, const auto* b) { return a->stats.sum_d2 > b->stats.sum_d2; });
  if (blocks.size() < 2 || differing.empty() || !(all > 0)) {
    return describe_elements(measurement.total);
  }
  const auto share = [all](const measure::BlockStats& block) { return block.stats.sum_d2 / all; };
  const std::string of = concat(differing.size(), " of ", blocks.size(), " shards differ, ",
                                describe_elements(measurement.total));
  const bool evenly = share(*differing.front()) * static_cast<double>(blocks.size()) <= 2;
  if (differing.size() > base::kShown.names && evenly) {
    return concat("spread evenly: no shard has more than ", percent_of(share(*differing.front())),
                  " of the squared error; ", of);
  }
  std::string text;
  double named = 0;
  for (std::size_t i = 0; i < differing.size() && i < base::kShown.names; ++i) {
    named += share(*differing[i]);
    text += concat(i > 0 ? ", " : "", percent_of(share(*differing[i])),
                   i > 0 ? " " : " of the squared error ", describe_shard(*differing[i]));
  }
  if (differing.size() > base::kShown.names) {
    text += concat(", ", percent_of(std::max(0.0, 1 - named)), " on others");
  }
  return concat(text, "; ", of);
}

}  // namespace

std::string describe_merging(const trace::Source& candidate, const trace::TensorEntry& entry) {
  const trace::Mesh& mesh = candidate.manifest().meshes.at(entry.mesh);
  layout::Plan plan;
  try {
    plan = measure::resolved_plan(candidate, entry);
  } catch (const base::InputError& error) {
    return error.what();  // an index that cannot be read
  }
  std::size_t shards = 0;
  std::set<tensor::Shape> shapes;
  for (const layout::Block& block : plan.blocks) {
    shapes.insert(block.held.dataset_shape());
    for (const layout::Term& term : block.terms) shards += term.ranks.size();
  }
  std::string text = concat(shards, " × ");
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
    trace::Placement placement =
        found == entry.placements.end() ? trace::Placement{} : found->second;
    const auto held = entry.held_at.find(axis.name);
    const bool one = held != entry.held_at.end() && held->second.size() == 1;
    const bool copies = std::holds_alternative<trace::Replicate>(placement);
    if (one && copies) placement = trace::Only{held->second[0]};
    text +=
        concat(", ", describe_over(placement, one ? axis.name : describe_held(entry, axis.name)));
  }
  return text;
}

std::string describe_view(const trace::Source& candidate, const layout::View& view) {
  const std::vector<const trace::TensorEntry*> entries = layout::stored_in(view);
  std::string first = describe_merging(candidate, *entries.front());
  if (std::holds_alternative<layout::Stored>(view.how)) return first;
  const char* how = std::holds_alternative<layout::Sum>(view.how)          ? "the sum of "
                    : std::holds_alternative<layout::Transposed>(view.how) ? "transposed: "
                    : entries.size() > 1                                   ? "made of "
                                                                           : "cut from ";
  std::string text = concat(tensor::to_string(view.shape), " ", how);
  for (std::size_t i = 0; i < entries.size() && i < base::kShown.names; ++i) {
    text += concat(i > 0 ? ", " : "", named_part(*entries[i], view.key));
  }
  if (entries.size() > base::kShown.names) text += concat(", ... ", entries.size(), " in all");
  const bool alike = std::all_of(entries.begin(), entries.end(), [&](const auto* entry) {
    return describe_merging(candidate, *entry) == first;
  });
  return concat(text, "; ", !alike ? "the first " : entries.size() > 1 ? "each " : "", first);
}

std::string describe_where(const measure::TensorRef& candidate,
                           const comparison::TensorComparison& result) {
  const measure::Measurement& measurement = result.comparison->measurement;
  if (result.outcome == judge::Outcome::kReplicaConflict) {
    return concat(describe_classes(candidate, measurement.replicas),
                  " hold different values, and should be replicas");
  }
  if (measurement.total.nonfinite_different > 0) {
    return concat(describe_nonfinite(measurement.total), describe_nonfinite_shards(measurement));
  }
  return describe_shares(measurement);
}

std::string describe_shapes(const trace::Source& reference, const layout::View& of_reference,
                            const trace::Source& candidate, const layout::View& of_candidate) {
  const auto side = [](const char* who, const trace::Source& source, const layout::View& view) {
    return concat(who, tensor::to_string(view.shape), " ", dtype_short_name(view.dtype), " (",
                  describe_view(source, view), ")");
  };
  return concat(side("reference ", reference, of_reference), "; ",
                side("candidate ", candidate, of_candidate));
}

namespace {

// Whether the error of a shard is more than its share of all of it; or so much more than its share
// of what is allowed that a smaller one beside a large one is wrong too, and no rounding.
bool holds_error(const measure::BlockStats& block, const comparison::ComparedNumbers& numbers,
                 double even) {
  if (block.stats.nonfinite_different > 0) return true;
  if (block.stats.unequal == 0) return false;
  const double here = mean_square(block.stats);
  if (here >= even) return true;
  constexpr double kLeast = 1e-4;  // of the mean square of all: 1 % of the error
  constexpr double kBeyond = 2;    // times what is allowed to so many elements
  const double most = kBeyond * numbers.tolerance.allowed_norm();
  const auto elements = static_cast<double>(numbers.measurement.total.elements);
  return here >= kLeast * even && here * elements > most * most;
}

}  // namespace

std::vector<std::uint64_t> ranks_with_error(const comparison::TensorComparison& result) {
  const measure::Measurement& measurement = result.comparison->measurement;
  std::set<std::uint64_t> ranks;
  if (result.outcome == judge::Outcome::kReplicaConflict) {
    for (const auto& members : measurement.replicas->classes) {
      ranks.insert(members.begin(), members.end());
    }
    return {ranks.begin(), ranks.end()};
  }
  const double even = mean_square(measurement.total);
  for (const measure::BlockStats& block : measurement.blocks) {
    if (holds_error(block, *result.comparison, even)) {
      ranks.insert(block.owner->ranks.begin(), block.owner->ranks.end());
    }
  }
  return {ranks.begin(), ranks.end()};
}

}  // namespace ttrace::localize
