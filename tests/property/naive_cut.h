// What each placement leaves of an array of element numbers, element by element.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "tensor/box.h"
#include "trace/placement.h"

namespace ttrace::test {

using Indices = std::vector<std::uint64_t>;

// A rank's array; every element is its row-major number in the whole tensor, -1 for padding.
struct NaiveArray {
  tensor::Shape shape;
  std::vector<std::int64_t> elements;
};

// torch.chunk: as many to each part as make `parts` of them enough, while there are any.
inline std::vector<Indices> chunks_of(const Indices& list, std::size_t parts) {
  std::size_t width = 0;
  while (width * parts < list.size()) ++width;
  std::vector<Indices> dealt(parts);
  for (std::size_t i = 0; i < list.size(); ++i) dealt[i / width].push_back(list[i]);
  return dealt;
}

// As many to each part as `sizes` says; `fits` becomes false if that is not what there is.
inline std::vector<Indices> parts_of(const Indices& list, const Indices& sizes, bool& fits) {
  std::vector<Indices> dealt(sizes.size());
  std::size_t at = 0;
  for (std::size_t p = 0; p < sizes.size(); ++p) {
    for (std::uint64_t k = 0; k < sizes[p] && fits; ++k) {
      if (at == list.size()) {
        fits = false;
      } else {
        dealt[p].push_back(list[at++]);
      }
    }
  }
  fits = fits && at == list.size();
  return dealt;
}

inline Indices all_indices(std::uint64_t extent) {
  Indices all(extent);
  for (std::uint64_t i = 0; i < extent; ++i) all[i] = i;
  return all;
}

inline Indices part_of(const std::vector<Indices>& parts, std::size_t count, std::size_t index,
                       bool& fits) {
  fits = fits && parts.size() == count;
  return index < parts.size() ? parts[index] : Indices{};
}

// Indices of a dimension of `extent` that coordinate `index` of `parts` keeps.
struct KeptIndices {
  std::uint64_t extent;
  std::size_t parts;
  std::size_t index;
  bool& fits;

  Indices operator()(const trace::Shard& shard) const {
    const Indices all = all_indices(extent);
    return part_of(shard.sizes ? parts_of(all, *shard.sizes, fits) : chunks_of(all, parts), parts,
                   index, fits);
  }
  Indices operator()(const trace::Zigzag&) const {
    const std::vector<Indices> chunks = chunks_of(all_indices(extent), 2 * parts);
    Indices kept = chunks[index];
    const Indices& second = chunks[2 * parts - 1 - index];
    kept.insert(kept.end(), second.begin(), second.end());
    return kept;
  }
  Indices operator()(const trace::Segments& segments) const {
    Indices kept;
    std::uint64_t at = 0;
    for (std::uint64_t r = 0; r < segments.repeat; ++r) {
      for (std::size_t s = 0; s < segments.segments.size(); ++s) {
        Indices segment;
        while (segment.size() < segments.segments[s] && at < extent) segment.push_back(at++);
        fits = fits && segment.size() == segments.segments[s];
        const Indices part = part_of(segments.sizes ? parts_of(segment, (*segments.sizes)[s], fits)
                                                    : chunks_of(segment, parts),
                                     parts, index, fits);
        kept.insert(kept.end(), part.begin(), part.end());
      }
    }
    fits = fits && at == extent;
    return kept;
  }
  Indices operator()(const trace::Strided& strided) const {
    Indices kept;
    for (const Indices& chunk : chunks_of(all_indices(extent), strided.stride)) {
      const Indices part = chunks_of(chunk, parts)[index];
      kept.insert(kept.end(), part.begin(), part.end());
    }
    return kept;
  }
  template <typename Other>
  Indices operator()(const Other&) const {
    return all_indices(extent);
  }
};

// The array with the entries `indices` of dimension `dim`, in that order; -1 is an entry of
// padding.
template <typename Index>
NaiveArray take(const NaiveArray& from, std::size_t dim, const std::vector<Index>& indices,
                bool& fits) {
  std::size_t outer = 1;
  std::size_t inner = 1;
  for (std::size_t d = 0; d < from.shape.size(); ++d) {
    if (d < dim) outer *= from.shape[d];
    if (d > dim) inner *= from.shape[d];
  }
  NaiveArray taken{from.shape, {}};
  taken.shape[dim] = indices.size();
  const std::size_t extent = from.shape[dim];
  for (std::size_t o = 0; o < outer; ++o) {
    for (const Index index : indices) {
      const auto signed_index = static_cast<std::int64_t>(index);
      const bool there = signed_index >= 0 && static_cast<std::size_t>(index) < extent;
      fits = fits && (there || signed_index < 0);
      const std::size_t at = there ? (o * extent + static_cast<std::size_t>(index)) * inner : 0;
      for (std::size_t k = 0; k < inner; ++k) {
        taken.elements.push_back(there ? from.elements[at + k] : -1);
      }
    }
  }
  return taken;
}

// The elements of `from` that lie within `box`, which may reach beyond it.
inline NaiveArray take_box(const NaiveArray& from, const tensor::Box& box, bool& fits) {
  NaiveArray taken{from.shape, {}};
  for (std::size_t d = 0; d < from.shape.size(); ++d) {
    const std::uint64_t stop = box.origin[d] + box.extent[d];
    fits = fits && stop <= from.shape[d];
    taken.shape[d] = 0;
    for (std::uint64_t at = 0; at < from.shape[d]; ++at) {
      if (at >= box.origin[d] && at < stop) ++taken.shape[d];
    }
  }
  for (std::size_t i = 0; i < from.elements.size(); ++i) {
    std::uint64_t rest = i;
    bool inside = true;
    for (std::size_t d = from.shape.size(); d-- > 0;) {
      const std::uint64_t at = rest % from.shape[d];
      rest /= from.shape[d];
      inside = inside && at >= box.origin[d] && at < box.origin[d] + box.extent[d];
    }
    if (inside) taken.elements.push_back(from.elements[i]);
  }
  return taken;
}

// The elements of range `index`, which may reach beyond the array.
inline NaiveArray take_range(const NaiveArray& from, const trace::Flat& flat, std::size_t index,
                             bool& fits) {
  NaiveArray taken{{0}, {}};
  if (index >= flat.ranges.size()) {
    fits = false;
    return taken;
  }
  const trace::Flat::Interval& range = flat.ranges[index];
  taken.shape[0] = range.stop - range.start;
  fits = fits && range.stop <= from.elements.size();
  for (std::uint64_t i = range.start; i < range.stop && i < from.elements.size(); ++i) {
    taken.elements.push_back(from.elements[i]);
  }
  return taken;
}

// What one axis leaves to coordinate `index` of `parts`; flat and rows apply later.
inline NaiveArray cut_naively(const NaiveArray& from, const trace::Placement& placement,
                              std::size_t parts, std::size_t index, bool& fits) {
  if (const auto* flat = std::get_if<trace::Flat>(&placement)) {
    fits = fits && flat->ranges.size() == parts;
  } else if (const auto* boxes = std::get_if<trace::Boxes>(&placement)) {
    fits = fits && boxes->boxes.size() == parts;
    if (index < boxes->boxes.size()) return take_box(from, boxes->boxes[index], fits);
    return {tensor::Shape(from.shape.size(), 0), {}};
  } else if (const auto dim = trace::cut_dimension(placement);
             dim && !std::holds_alternative<trace::Rows>(placement)) {
    const Indices kept = std::visit(KeptIndices{from.shape[*dim], parts, index, fits}, placement);
    return take(from, *dim, kept, fits);
  }
  return from;
}

}  // namespace ttrace::test
