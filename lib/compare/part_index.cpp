#include "compare/part_index.h"

#include <algorithm>
#include <set>

namespace ttrace::compare {

PartIndex::PartIndex(const layout::Plan& plan) {
  for (std::size_t b = 0; b < plan.blocks.size(); ++b) {
    for (const layout::Part& part : plan.blocks[b].held.parts) parts_.push_back({0, b, &part});
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
    const std::function<bool(std::size_t block, const layout::Part& part)>& visit) const {
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

}  // namespace ttrace::compare
