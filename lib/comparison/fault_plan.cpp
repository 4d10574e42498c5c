#include "comparison/fault_plan.h"

#include <algorithm>
#include <optional>

#include "base/message.h"
#include "layout/mesh.h"

namespace ttrace::comparison {
namespace {

using base::render;
using measure::Fault;
using measure::RankBoxes;

constexpr std::uint64_t kParts = 16;  // a fault in a part lies in one sixteenth of the tensor

// FNV-1a: the same on every machine, so that a fault is always at the same place.
std::uint64_t hash_of(const trace::TensorKey& key) {
  std::uint64_t hash = 0xcbf29ce484222325U;
  for (const char byte : to_string(key)) {
    hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001b3U;
  }
  return hash;
}

// Sets the type that a faulty run would have rounded to; nothing for a tensor made of several.
void set_storage(const layout::View& view, Fault& fault) {
  const auto* stored = std::get_if<layout::Stored>(&view.how);
  if (stored == nullptr) return;
  for (const auto& [axis, placement] : stored->entry->placements) {
    if (std::holds_alternative<trace::Partial>(placement)) return;
  }
  fault.stored_as = stored->entry->dtype;
  fault.scale = stored->entry->scale;
}

void plan_scaled(const layout::View& view, PlannedFault& into) {
  if (!tensor::is_floating(view.dtype)) {
    into.problem = render({"integers are compared exactly", {}});
    return;
  }
  into.fault.factor = 2;
  set_storage(view, into.fault);
}

void plan_part_scaled(const Pair& pair, PlannedFault& into) {
  const layout::View& view = *pair.candidate;
  plan_scaled(view, into);
  if (!into.problem.empty()) return;
  const auto longest = std::max_element(view.shape.begin(), view.shape.end());
  if (longest == view.shape.end() || *longest < kParts) {
    into.problem = render({"no dimension has {parts} elements", {{"parts", kParts}}});
    return;
  }
  const auto dim = static_cast<std::size_t>(longest - view.shape.begin());
  const std::uint64_t length = *longest / kParts;
  tensor::Box part = tensor::whole(view.shape);
  // Starts anywhere, so that the part does not coincide with a slice.
  part.origin[dim] = hash_of(pair.key) % (*longest - length + 1);
  part.extent[dim] = length;
  into.what = render({"{first} to {last} of {all} along dimension {dim}",
                      {{"first", part.origin[dim]},
                       {"last", part.origin[dim] + length - 1},
                       {"all", *longest},
                       {"dim", dim}}});
  into.fault.scaled = std::move(part);
}

bool same_extents(const RankBoxes& a, const RankBoxes& b) {
  return std::equal(a.boxes.begin(), a.boxes.end(), b.boxes.begin(), b.boxes.end(),
                    [](const auto& x, const auto& y) { return x.extent == y.extent; });
}

void swap_shards(const RankBoxes& a, const RankBoxes& b, const measure::TensorRef& tensor,
                 PlannedFault& into) {
  for (std::size_t i = 0; i < a.boxes.size(); ++i) {
    into.fault.moves.push_back({a.boxes[i], b.boxes[i].origin});
    into.fault.moves.push_back({b.boxes[i], a.boxes[i].origin});
  }
  into.fault.source = tensor;
  into.what = render(
      {"those of ranks {one} and {other}", {{"one", a.ranks.front()}, {"other", b.ranks.front()}}});
}

void plan_swapped(const measure::TensorRef& tensor, PlannedFault& into) {
  const std::vector<RankBoxes> shards = tensor.open(measure::Replicas::kFirstOnly)->rank_boxes();
  for (std::size_t i = 0; i < shards.size(); ++i) {
    for (std::size_t j = i + 1; j < shards.size(); ++j) {
      if (shards[i].ranks.empty() || shards[j].ranks.empty()) continue;
      if (!same_extents(shards[i], shards[j])) continue;
      return swap_shards(shards[i], shards[j], tensor, into);
    }
  }
  into.problem = render({shards.size() < 2 ? "not cut" : "no two shards of equal shape", {}});
}

void plan_row(const layout::View& view, PlannedFault& into) {
  if (view.shape.empty() || view.shape[0] < 2) {
    into.problem = render({"one row or none", {}});
    return;
  }
  tensor::Box row = tensor::whole(view.shape);
  row.origin[0] = view.shape[0] / 2;
  row.extent[0] = 1;
  into.what = render({"{row} of {rows}", {{"row", row.origin[0]}, {"rows", view.shape[0]}}});
  into.fault.zeroed = {std::move(row)};
}

void plan_rounded(const layout::View& view, PlannedFault& into) {
  if (!tensor::is_floating(view.dtype)) {
    into.problem = render({"integers are not rounded", {}});
  } else if (tensor::epsilon(view.dtype) >= tensor::epsilon(tensor::DType::kBFloat16)) {
    into.problem = render({"no finer than bf16 as it is", {}});
  } else {
    into.fault.rounded_to = tensor::DType::kBFloat16;
  }
}

// Ranks stale values for `key`: first the last micro-batch or step before it, then any other;
// larger is better.
std::tuple<int, std::uint64_t, std::uint64_t> closeness(const trace::TensorKey& key,
                                                        const trace::TensorKey& other) {
  const std::uint64_t batch = other.microbatch.value_or(0);
  const bool earlier =
      other.step < key.step || (other.step == key.step && batch < key.microbatch.value_or(0));
  // The earliest of the later ones.
  return earlier ? std::tuple{1, other.step, batch} : std::tuple{0, ~other.step, ~batch};
}

}  // namespace

FaultPlanner::FaultPlanner(const trace::Source& candidate,
                           const std::vector<TensorComparison>& results)
    : candidate_(candidate) {
  for (const Pair& pair : results) {
    if (pair.candidate == nullptr) continue;
    series_[{pair.key.kind, pair.key.name, pair.key.call, pair.key.copy}].push_back(pair.candidate);
  }
}

void FaultPlanner::plan_dropped(const Pair& pair, PlannedFault& into) const {
  into.problem = render({"no sum over ranks", {}});
  const auto* stored = std::get_if<layout::Stored>(&pair.candidate->how);
  if (stored == nullptr) return;
  const trace::TensorEntry& entry = *stored->entry;
  const auto mesh = candidate_.manifest().meshes.find(entry.mesh);
  if (mesh == candidate_.manifest().meshes.end()) return;
  for (const layout::AxisView& axis : layout::axis_views(entry, mesh->second)) {
    const auto* partial = std::get_if<trace::Partial>(axis.placement);
    if (partial == nullptr || axis.held.size() < 2) continue;
    auto rest = std::make_shared<trace::TensorEntry>(entry);
    const auto count = static_cast<double>(axis.held.size());
    rest->held_at[*axis.name].assign(axis.held.begin(), axis.held.end() - 1);
    // The faulty run still divides a mean by the number of all terms.
    if (partial->reduction == trace::Reduction::kMean) rest->scale *= (count - 1) / count;
    auto view = std::make_shared<layout::View>(*pair.candidate);
    view->how = layout::Stored{std::move(rest)};
    into.fault.source = measure::TensorRef{&candidate_, std::move(view)};
    into.fault.moves = {
        {tensor::whole(pair.candidate->shape), tensor::Shape(pair.candidate->shape.size(), 0)}};
    into.what =
        render({"that of {axis} {place}", {{"axis", *axis.name}, {"place", axis.held.back()}}});
    into.problem.clear();
    return;
  }
}

void FaultPlanner::plan_stale(const Pair& pair, PlannedFault& into) const {
  const trace::TensorKey& key = pair.key;
  layout::ViewPtr best;
  const auto offer = [&](const layout::ViewPtr& view) {
    const bool fits =
        view->shape == pair.candidate->shape &&
        tensor::is_floating(view->dtype) == tensor::is_floating(pair.candidate->dtype);
    if (!fits || view->key == pair.candidate->key) return;
    if (best == nullptr || closeness(key, best->key) < closeness(key, view->key)) best = view;
  };
  const auto offer_series = [&](trace::Kind kind, const std::optional<std::uint64_t>& step) {
    const auto found = series_.find({kind, key.name, key.call, key.copy});
    if (found == series_.end()) return;
    for (const layout::ViewPtr& view : found->second) {
      if (!step || view->key.step == *step) offer(view);
    }
  };
  // An update that did not happen.
  if (key.kind == trace::Kind::kParamAfterStep) offer_series(trace::Kind::kParam, key.step);
  if (best == nullptr) offer_series(key.kind, std::nullopt);
  if (best == nullptr) {
    into.problem = render({"no other micro-batch or step", {}});
    return;
  }
  into.fault.source = measure::TensorRef{&candidate_, best};
  into.fault.moves = {
      {tensor::whole(pair.candidate->shape), tensor::Shape(pair.candidate->shape.size(), 0)}};
  into.what = render({"that of {tensor}", {{"tensor", to_string(best->key)}}});
}

std::vector<PlannedFault> FaultPlanner::plan(const Pair& pair,
                                             const measure::TensorRef& tensor) const {
  std::vector<PlannedFault> faults;
  for (const FaultKind kind : kAllFaults) {
    PlannedFault planned;
    planned.kind = kind;
    switch (kind) {
      case FaultKind::kScaled:
        plan_scaled(*pair.candidate, planned);
        break;
      case FaultKind::kPartScaled:
        plan_part_scaled(pair, planned);
        break;
      case FaultKind::kSwapped:
        plan_swapped(tensor, planned);
        break;
      case FaultKind::kDropped:
        plan_dropped(pair, planned);
        break;
      case FaultKind::kRowZeroed:
        plan_row(*pair.candidate, planned);
        break;
      case FaultKind::kStale:
        plan_stale(pair, planned);
        break;
      case FaultKind::kRounded:
        plan_rounded(*pair.candidate, planned);
        break;
    }
    faults.push_back(std::move(planned));
  }
  return faults;
}

}  // namespace ttrace::comparison
