#include "layout/cut.h"

#include "base/error.h"
#include "layout/segments.h"
#include "layout/shard.h"
#include "layout/strided.h"
#include "layout/zigzag.h"

namespace ttrace::layout {
namespace {

struct Part {
  std::uint64_t extent;
  std::uint64_t parts;
  std::uint64_t index;

  Ranges operator()(const trace::Shard& shard) const {
    return shard_part(shard, extent, parts, index);
  }
  Ranges operator()(const trace::Zigzag&) const { return zigzag_part(extent, parts, index); }
  Ranges operator()(const trace::Segments& segments) const {
    return segments_part(segments, extent, parts, index);
  }
  Ranges operator()(const trace::Strided& strided) const {
    return strided_part(strided.stride, extent, parts, index);
  }
  template <typename Other>
  Ranges operator()(const Other&) const {
    throw base::internal_error("this placement does not cut one dimension");
  }
};

void require_one_each(std::size_t count, const char* what, std::uint64_t parts) {
  if (count != parts) throw base::input_error(count, " ", what, " for ", parts, " coordinates");
}

void apply_box(const tensor::Box& box, std::uint64_t index, std::vector<Ranges>& held) {
  for (std::size_t d = 0; d < held.size(); ++d) {
    const std::uint64_t extent = total(held[d]);
    if (box.origin[d] > extent || box.extent[d] > extent - box.origin[d]) {
      throw base::input_error("box ", index, ", offset ", tensor::to_string(box.origin), " size ",
                              tensor::to_string(box.extent), ", ends outside dimension ", d,
                              ", of which there are ", extent, " elements");
    }
    Ranges positions;
    append(positions, {box.origin[d], box.extent[d]});
    held[d] = select(held[d], positions);
  }
}

}  // namespace

void require_fitting_lists(const trace::Placement& placement, std::uint64_t parts) {
  if (const auto* shard = std::get_if<trace::Shard>(&placement); shard != nullptr && shard->sizes) {
    require_one_each(shard->sizes->size(), "shard sizes", parts);
  } else if (const auto* segments = std::get_if<trace::Segments>(&placement)) {
    if (!segments->sizes) return;
    for (const auto& sizes : *segments->sizes) {
      require_one_each(sizes.size(), "parts of a segment", parts);
    }
  } else if (const auto* flat = std::get_if<trace::Flat>(&placement)) {
    require_one_each(flat->ranges.size(), "flat ranges", parts);
  } else if (const auto* boxes = std::get_if<trace::Boxes>(&placement)) {
    require_one_each(boxes->boxes.size(), "boxes", parts);
  }
}

bool cuts(const trace::Placement& placement) {
  return trace::cut_dimension(placement) || std::holds_alternative<trace::Flat>(placement) ||
         std::holds_alternative<trace::Boxes>(placement);
}

void apply_cut(const trace::Placement& placement, std::uint64_t parts, std::uint64_t index,
               std::vector<Ranges>& held) {
  require_fitting_lists(placement, parts);
  if (const auto* boxes = std::get_if<trace::Boxes>(&placement)) {
    return apply_box(boxes->boxes[index], index, held);
  }
  if (std::holds_alternative<trace::Rows>(placement)) return;
  const auto dim = trace::cut_dimension(placement);
  if (!dim) return;
  Ranges& there = held.at(*dim);
  there = select(there, std::visit(Part{total(there), parts, index}, placement));
}

}  // namespace ttrace::layout
