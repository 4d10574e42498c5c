#include "measure/planned_tensor.h"

#include <algorithm>
#include <deque>
#include <set>

#include "measure/shard_reader.h"

namespace ttrace::measure {

PartIndex::PartIndex(const layout::Plan& plan) {
  for (std::size_t b = 0; b < plan.blocks.size(); ++b) {
    for (const layout::PlacedBox& part : plan.blocks[b].held.parts) parts_.push_back({0, b, &part});
  }
  const std::size_t dimensions = parts_.empty() ? 0 : parts_[0].part->global.extent.size();
  std::size_t most = 0;
  for (std::size_t d = 0; d < dimensions; ++d) {
    std::set<std::uint64_t> starts;
    for (const Located& located : parts_) starts.insert(located.part->global.origin[d]);
    if (starts.size() <= most) continue;
    most = starts.size();
    dim_ = d;
  }
  if (dimensions == 0) return;
  for (Located& located : parts_) {
    located.start = located.part->global.origin[dim_];
    longest_ = std::max(longest_, located.part->global.extent[dim_]);
  }
  std::stable_sort(parts_.begin(), parts_.end(),
                   [](const Located& a, const Located& b) { return a.start < b.start; });
}

void PartIndex::for_each(
    const tensor::Box& box,
    const std::function<bool(std::size_t block, const layout::PlacedBox& part)>& visit) const {
  const bool has_dimensions = !box.extent.empty();
  const std::uint64_t from = has_dimensions ? box.origin[dim_] : 0;
  const std::uint64_t stop = has_dimensions ? from + box.extent[dim_] : 1;
  // A part that starts this much earlier ends before the box.
  const std::uint64_t earliest = from > longest_ ? from - longest_ : 0;
  auto located =
      std::lower_bound(parts_.begin(), parts_.end(), earliest,
                       [](const Located& l, std::uint64_t start) { return l.start < start; });
  for (; located != parts_.end() && located->start < stop; ++located) {
    if (!tensor::intersect(located->part->global, box)) continue;
    if (!visit(located->block, *located->part)) return;
  }
}

namespace {

bool is_placed_by_rows(const trace::TensorEntry& entry) {
  return std::any_of(entry.placements.begin(), entry.placements.end(), [](const auto& placed) {
    return std::holds_alternative<trace::Rows>(placed.second);
  });
}

// Plans that were made last.
class RecentPlans {
 public:
  std::shared_ptr<const PlannedTensor> plan_of(const trace::Source& source,
                                               const trace::TensorEntry& entry) {
    const trace::Mesh& mesh = source.manifest().meshes.at(entry.mesh);
    for (const Known& known : kept_) {
      if (known.fits(entry, mesh)) return known.planned;
    }
    auto planned = std::make_shared<const PlannedTensor>(resolved_plan(source, entry));
    if (planned->plan().blocks.size() > kMostBlocks || is_placed_by_rows(entry)) return planned;
    kept_.push_front({entry.shape, entry.held_at, entry.placements, mesh, planned});
    if (kept_.size() > kMostKept) kept_.pop_back();
    return planned;
  }

 private:
  static constexpr std::size_t kMostKept = 8;
  static constexpr std::size_t kMostBlocks = 64;  // of a plan that is kept

  // All that a plan depends on, unless an index places rows: its values are read from the trace.
  struct Known {
    tensor::Shape shape;
    trace::HeldAt held_at;
    trace::Placements placements;
    trace::Mesh mesh;
    std::shared_ptr<const PlannedTensor> planned;

    bool fits(const trace::TensorEntry& entry, const trace::Mesh& its_mesh) const {
      return shape == entry.shape && held_at == entry.held_at && placements == entry.placements &&
             mesh == its_mesh;
    }
  };

  std::deque<Known> kept_;
};

}  // namespace

std::shared_ptr<const PlannedTensor> planned_tensor(const trace::Source& source,
                                                    const trace::TensorEntry& entry) {
  thread_local RecentPlans recent;
  return recent.plan_of(source, entry);
}

}  // namespace ttrace::measure
