#include "layout/local_layout.h"

#include <algorithm>

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
                  std::vector<Part>& parts) {
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
    Part part;
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

}  // namespace ttrace::layout
