#include "layout/local_layout.h"

#include <algorithm>
#include <set>

#include "base/bytes.h"
#include "base/error.h"
#include "trace/placement.h"

namespace ttrace::layout {
namespace {

// A run of one dimension that is contiguous in the tensor and in the rank's array.
struct Run {
  std::uint64_t global = 0;
  std::uint64_t local = 0;
  std::uint64_t length = 0;
};

std::vector<Run> runs_within(const Ranges& held, std::uint64_t start, std::uint64_t stop) {
  std::vector<Run> runs;
  std::uint64_t at = 0;
  for (const Range& range : held) {
    const std::uint64_t from = std::max(at, start);
    const std::uint64_t to = std::min(at + range.length, stop);
    if (from < to && range.start != trace::kPadding)
      runs.push_back({range.start + (from - at), from, to - from});
    at += range.length;
  }
  return runs;
}

void append_parts(const std::vector<Ranges>& held, const tensor::Box& local,
                  std::vector<PlacedBox>& parts) {
  std::vector<std::vector<Run>> runs;
  std::size_t count = 1;
  for (std::size_t d = 0; d < held.size(); ++d) {
    runs.push_back(runs_within(held[d], local.origin[d], local.origin[d] + local.extent[d]));
    if (runs.back().empty()) return;
    count *= runs.back().size();
    // No limit for the rows of an index: they were read, and are as many as the rank has.
    if (count > tensor::kMostRanges && runs.back().size() != count) {
      throw base::input_error("a rank would hold more than ", tensor::kMostRanges,
                              " separate boxes");
    }
  }
  parts.reserve(parts.size() + count);
  std::vector<std::size_t> at(held.size(), 0);
  for (std::size_t i = 0; i < count; ++i) {
    PlacedBox part;
    for (std::size_t d = 0; d < held.size(); ++d) {
      const Run& run = runs[d][at[d]];
      part.global.origin.push_back(run.global);
      part.global.extent.push_back(run.length);
      part.local.origin.push_back(run.local);
    }
    part.local.extent = part.global.extent;
    parts.push_back(std::move(part));
    for (std::size_t d = held.size(); d-- > 0 && ++at[d] == runs[d].size();) at[d] = 0;
  }
}

using tensor::Box;

// The dimension along which the boxes begin at the most different places: sweeping along it leaves
// the fewest pairs to look at.
std::size_t sweep_dimension(const std::vector<Box>& boxes, std::size_t dimensions) {
  std::size_t best = 0;
  std::size_t most = 0;
  for (std::size_t d = 0; d < dimensions; ++d) {
    std::set<std::uint64_t> starts;
    for (const Box& box : boxes) starts.insert(box.origin[d]);
    if (starts.size() > most) {
      most = starts.size();
      best = d;
    }
  }
  return best;
}

void find_overlaps(const tensor::Shape& shape, const std::vector<Box>& boxes, std::size_t most,
                   std::vector<CoverageDefect>& defects) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < boxes.size(); ++i) {
    if (!tensor::empty(boxes[i])) order.push_back(i);
  }
  const std::size_t d = sweep_dimension(boxes, shape.size());
  const auto start = [&](std::size_t i) { return shape.empty() ? 0 : boxes[i].origin[d]; };
  const auto stop = [&](std::size_t i) {
    return shape.empty() ? 1 : boxes[i].origin[d] + boxes[i].extent[d];
  };
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return start(a) < start(b); });
  std::vector<std::size_t> active;
  for (const std::size_t i : order) {
    std::erase_if(active, [&](std::size_t a) { return stop(a) <= start(i); });
    for (const std::size_t a : active) {
      const auto common = tensor::intersect(boxes[a], boxes[i]);
      if (!common) continue;
      defects.push_back({*common, {std::min(a, i), std::max(a, i)}});
      if (defects.size() == most) return;
    }
    active.push_back(i);
  }
}

// Sum of the volumes that the boxes share with `region`, saturated.
std::uint64_t covered(const Box& region, const std::vector<Box>& boxes) {
  std::uint64_t sum = 0;
  for (const Box& box : boxes) {
    const auto common = tensor::intersect(region, box);
    if (!common) continue;
    const auto next = base::checked_add(sum, tensor::volume(*common));
    if (!next) return ~std::uint64_t{0};
    sum = *next;
  }
  return sum;
}

// Finds a box of `region` outside all boxes, which together cover less than its volume.
Box find_gap(Box region, std::vector<Box> boxes) {
  while (true) {
    std::erase_if(boxes, [&](const Box& box) { return !tensor::intersect(region, box); });
    if (boxes.empty()) return region;
    // A face of the box in the middle of the list cuts the region in two; one half has the deficit.
    std::optional<Box> half;
    for (std::size_t n = 0; n < boxes.size() && !half; ++n) {
      const Box& box = boxes[(boxes.size() / 2 + n) % boxes.size()];
      for (std::size_t d = 0; d < region.extent.size() && !half; ++d) {
        for (const std::uint64_t face : {box.origin[d], box.origin[d] + box.extent[d]}) {
          if (face <= region.origin[d] || face >= region.origin[d] + region.extent[d]) continue;
          Box low = region;
          low.extent[d] = face - region.origin[d];
          Box high = region;
          high.origin[d] = face;
          high.extent[d] = region.extent[d] - low.extent[d];
          half = covered(low, boxes) < tensor::volume(low) ? low : high;
          break;
        }
      }
    }
    if (!half) return region;  // cannot be: a box without a face inside covers the region
    region = *half;
  }
}

}  // namespace

tensor::Shape LocalLayout::dataset_shape() const {
  return range ? tensor::Shape{range->length} : shape;
}

LocalLayout make_local_layout(const std::vector<Ranges>& held, std::optional<Range> range) {
  LocalLayout local;
  for (const Ranges& ranges : held) local.shape.push_back(total(ranges));
  local.range = range;
  if (!range) {
    append_parts(held, tensor::whole(local.shape), local.parts);
    return local;
  }
  const std::uint64_t elements = tensor::volume(tensor::whole(local.shape));
  if (range->start > elements || range->length > elements - range->start) {
    throw base::input_error("the flat range [", range->start, ", ", range->start + range->length,
                            ") ends beyond the ", elements, " elements of ",
                            tensor::to_string(local.shape));
  }
  for (const tensor::Box& box :
       trace::flat_boxes(local.shape, range->start, range->start + range->length)) {
    append_parts(held, box, local.parts);
  }
  return local;
}

std::vector<CoverageDefect> coverage_defects(const tensor::Shape& shape,
                                             const std::vector<Box>& boxes, std::size_t most) {
  std::vector<CoverageDefect> defects;
  const Box whole = tensor::whole(shape);
  if (tensor::empty(whole)) return defects;
  find_overlaps(shape, boxes, most, defects);
  if (defects.size() < most && covered(whole, boxes) < tensor::volume(whole)) {
    defects.push_back({find_gap(whole, boxes), {}});
  }
  return defects;
}

}  // namespace ttrace::layout
