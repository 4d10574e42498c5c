#include "localize/describe_layout.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "base/display_limits.h"
#include "base/error.h"
#include "base/message.h"
#include "base/text.h"
#include "localize/causes/separating_axes.h"
#include "localize/explain.h"
#include "measure/shard_reader.h"

namespace ttrace::localize {
namespace {

using base::concat;
using base::render;

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
  base::Message told{
      "{in_candidate} NaN or Inf in the candidate, {in_reference} in the reference, {different} of "
      "them not the same[, first at {first_at}]",
      {{"in_candidate", stats.nonfinite_candidate},
       {"in_reference", stats.nonfinite_reference},
       {"different", stats.nonfinite_different}}};
  if (stats.first_nonfinite_difference) {
    told.values.emplace_back("first_at", tensor::to_string(*stats.first_nonfinite_difference));
  }
  return render(told);
}

// "all of 2 of 4 shards, ranks {1, 3}" or "128 of 256 elements of 1 of 4 shards, rank 1".
std::string describe_nonfinite_shards(const measure::Measurement& measurement) {
  std::uint64_t elements = 0;
  std::uint64_t differing = 0;
  std::uint64_t shards = 0;
  std::set<std::uint64_t> ranks;
  for (const measure::BlockStats& block : measurement.blocks) {
    if (block.stats.nonfinite_different == 0) continue;
    ++shards;
    elements += block.stats.elements;
    differing += block.stats.nonfinite_different;
    ranks.insert(block.owner->ranks.begin(), block.owner->ranks.end());
  }
  if (shards == 0) return "";
  return render({differing == elements
                     ? "all of {shards} of {of:shard}, {ranks}"
                     : "{differing} of {elements:element} of {shards} of {of:shard}, {ranks}",
                 {{"differing", differing},
                  {"elements", elements},
                  {"shards", shards},
                  {"of", std::uint64_t{measurement.blocks.size()}},
                  {"ranks", layout::describe_ranks({ranks.begin(), ranks.end()})}}});
}

std::string describe_boxes(const std::vector<tensor::Box>& boxes) {
  const std::string first = tensor::to_string(boxes[0]);
  if (boxes.size() == 1) return first;
  if (boxes.size() == 2) return concat(first, " and ", tensor::to_string(boxes[1]));
  return render({"{first} and {more} more boxes",
                 {{"first", first}, {"more", std::uint64_t{boxes.size() - 1}}}});
}

std::string named_part(const trace::TensorEntry& part, const trace::TensorKey& whole) {
  const std::string words = layout::describe_part(part.key, whole);
  return words.empty() ? part.key.name : words;
}

std::string describe_shard(const measure::BlockStats& block) {
  const measure::RankBoxes& owner = *block.owner;
  base::Message told{
      owner.ranks.empty() ? "in padding ([{part}, ]{boxes})" : "on rank {rank} ([{part}, ]{boxes})",
      {{"part", owner.part}, {"boxes", describe_boxes(owner.boxes)}}};
  if (!owner.ranks.empty()) told.values.emplace_back("rank", owner.ranks.front());
  return render(told);
}

std::string describe_elements(const measure::TileStats& stats) {
  return render({"{unequal} of {elements} elements differ",
                 {{"unequal", stats.unequal}, {"elements", stats.elements}}});
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
  const std::string of = render({"{differing} of {shards} shards differ, {elements}",
                                 {{"differing", std::uint64_t{differing.size()}},
                                  {"shards", std::uint64_t{blocks.size()}},
                                  {"elements", describe_elements(measurement.total)}}});
  const bool evenly = share(*differing.front()) * static_cast<double>(blocks.size()) <= 2;
  if (differing.size() > base::kShown.names && evenly) {
    return render(
        {"spread evenly: no shard has more than {percent} % of the squared error; {differing}",
         {{"percent", 100 * share(*differing.front())}, {"differing", of}}});
  }
  std::string text;
  double named = 0;
  for (std::size_t i = 0; i < differing.size() && i < base::kShown.names; ++i) {
    named += share(*differing[i]);
    text += render(
        {i > 0 ? ", {percent} % {shard}" : "{percent} % of the squared error {shard}",
         {{"percent", 100 * share(*differing[i])}, {"shard", describe_shard(*differing[i])}}});
  }
  base::Message told{"{shares}[, {others} % on others]; {differing}",
                     {{"shares", text}, {"differing", of}}};
  if (differing.size() > base::kShown.names) {
    told.values.emplace_back("others", 100 * std::max(0.0, 1 - named));
  }
  return render(told);
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
  std::uint64_t shards = 0;
  std::set<tensor::Shape> shapes;
  for (const layout::Block& block : plan.blocks) {
    shapes.insert(block.held.dataset_shape());
    for (const layout::Term& term : block.terms) shards += term.ranks.size();
  }
  base::Message merging{"{shards} × {largest}[ down to {smallest}] -> {whole}",
                        {{"shards", shards},
                         {"largest", shapes.empty() ? "[]" : tensor::to_string(*shapes.rbegin())},
                         {"whole", tensor::to_string(entry.shape)}}};
  if (shapes.size() > 1) {
    merging.values.emplace_back("smallest", tensor::to_string(*shapes.begin()));
  }
  std::string text = render(merging);
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
  std::string parts;
  for (std::size_t i = 0; i < entries.size() && i < base::kShown.names; ++i) {
    parts += concat(i > 0 ? ", " : "", named_part(*entries[i], view.key));
  }
  const bool alike = std::all_of(entries.begin(), entries.end(), [&](const auto* entry) {
    return describe_merging(candidate, *entry) == first;
  });
  base::Message made{std::holds_alternative<layout::Sum>(view.how)
                         ? "{shape} the sum of {parts}[, ... {all} in all]; [{whose} ]{merging}"
                     : std::holds_alternative<layout::Transposed>(view.how)
                         ? "{shape} transposed: {parts}[, ... {all} in all]; [{whose} ]{merging}"
                     : entries.size() > 1
                         ? "{shape} made of {parts}[, ... {all} in all]; [{whose} ]{merging}"
                         : "{shape} cut from {parts}[, ... {all} in all]; [{whose} ]{merging}",
                     {{"shape", tensor::to_string(view.shape)},
                      {"parts", parts},
                      {"whose", !alike               ? "the first"
                                : entries.size() > 1 ? "each"
                                                     : ""},
                      {"merging", first}}};
  if (entries.size() > base::kShown.names) {
    made.values.emplace_back("all", std::uint64_t{entries.size()});
  }
  return render(made);
}

std::string describe_where(const measure::TensorRef& candidate,
                           const comparison::TensorComparison& result) {
  const measure::Measurement& measurement = result.comparison->measurement;
  if (result.outcome == judge::Outcome::kReplicaConflict) {
    return render({"{classes} hold different values, and should be replicas",
                   {{"classes", describe_classes(candidate, measurement.replicas)}}});
  }
  if (measurement.total.nonfinite_different > 0) {
    return render({"{values}[; {shards}]",
                   {{"values", describe_nonfinite(measurement.total)},
                    {"shards", describe_nonfinite_shards(measurement)}}});
  }
  return describe_shares(measurement);
}

std::string describe_shapes(const trace::Source& reference, const layout::View& of_reference,
                            const trace::Source& candidate, const layout::View& of_candidate) {
  const auto side = [](const trace::Source& source, const layout::View& view) {
    return concat(tensor::to_string(view.shape), " ", dtype_short_name(view.dtype), " (",
                  describe_view(source, view), ")");
  };
  return render({"reference {reference}; candidate {candidate}",
                 {{"reference", side(reference, of_reference)},
                  {"candidate", side(candidate, of_candidate)}}});
}

namespace {

// Whether the error of a shard is more than its share of all of it; or so much more than its share
// of what is allowed that a smaller one beside a large one is wrong too, and no rounding. Beside
// values that are not finite, no other error counts.
bool holds_error(const measure::BlockStats& block, const comparison::ComparedNumbers& numbers,
                 double even) {
  if (numbers.measurement.total.nonfinite_different > 0) {
    return block.stats.nonfinite_different > 0;
  }
  if (block.stats.unequal == 0) return false;
  const double here = mean_square(block.stats);
  if (here >= even) return true;
  constexpr double kLeast = 1e-4;  // of the mean square error of all: 1 % of its root
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
