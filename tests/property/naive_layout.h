// Which elements each coordinate of a mesh holds, found from schemas/trace-v2.md element by
// element: arrays of element numbers that one axis after the other deals out. Written from that
// page alone; shares no code with the library's layouts.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "property/naive_cut.h"
#include "trace/manifest.h"

namespace ttrace::test {

// What one coordinate holds.
struct NaiveHolder {
  std::uint64_t linear = 0;  // the coordinate's position in the mesh, row-major
  std::vector<std::uint64_t> coordinates;
  std::uint64_t rank = 0;
  std::uint64_t block = 0;  // those of the same number should hold the same elements
  std::uint64_t term = 0;   // of the reduction over the partial axes
  NaiveArray array;         // before the flat axis
  NaiveArray dataset;
};

struct NaiveDeal {
  std::vector<NaiveHolder> holders;  // by `linear`; coordinates without the tensor are not there
  std::uint64_t terms = 1;
  bool fits = true;  // all lists of sizes, segments, boxes and ranges fit what they cut

  const NaiveHolder* at(std::uint64_t linear) const {
    for (const NaiveHolder& holder : holders) {
      if (holder.linear == linear) return &holder;
    }
    return nullptr;
  }
};

// The rows each coordinate of the mesh holds, by its position.
using NaiveRows = std::vector<std::vector<std::int64_t>>;

inline std::vector<std::uint64_t> held_of(const trace::TensorEntry& entry,
                                          const trace::MeshAxis& axis) {
  if (const auto held = entry.held_at.find(axis.name); held != entry.held_at.end()) {
    return held->second;
  }
  if (const auto placed = entry.placements.find(axis.name); placed != entry.placements.end()) {
    if (const auto* only = std::get_if<trace::Only>(&placed->second)) return {only->coordinate};
  }
  std::vector<std::uint64_t> all(axis.size);
  for (std::uint64_t i = 0; i < axis.size; ++i) all[i] = i;
  return all;
}

class NaiveDealer {
 public:
  NaiveDealer(const trace::TensorEntry& entry, const trace::Mesh& mesh, const NaiveRows& rows)
      : entry_(entry), mesh_(mesh), rows_(rows) {}

  NaiveDeal deal() {
    NaiveArray whole{entry_.shape, {}};
    std::uint64_t count = 1;
    for (const std::uint64_t extent : entry_.shape) count *= extent;
    for (std::uint64_t i = 0; i < count; ++i) {
      whole.elements.push_back(static_cast<std::int64_t>(i));
    }
    NaiveHolder nobody;
    nobody.array = std::move(whole);
    descend(0, nobody, {nullptr, 0});
    return std::move(dealt_);
  }

 private:
  // The flat axis, which comes last, and the coordinate's position on it.
  using FlatPart = std::pair<const trace::Flat*, std::size_t>;

  void descend(std::size_t a, const NaiveHolder& above, FlatPart flat) {
    if (a == mesh_.axes.size()) return finish(above, flat);
    const trace::MeshAxis& axis = mesh_.axes[a];
    const auto placed = entry_.placements.find(axis.name);
    const trace::Placement placement =
        placed == entry_.placements.end() ? trace::Placement{} : placed->second;
    const std::vector<std::uint64_t> held = held_of(entry_, axis);
    for (std::size_t i = 0; i < held.size(); ++i) {
      NaiveHolder below = above;
      below.coordinates.push_back(held[i]);
      below.linear = above.linear * axis.size + held[i];
      if (std::holds_alternative<trace::Partial>(placement)) {
        below.term = above.term * held.size() + i;
      } else if (!std::holds_alternative<trace::Replicate>(placement) &&
                 !std::holds_alternative<trace::Only>(placement)) {
        below.block = above.block * held.size() + i;
      }
      FlatPart part = flat;
      if (const auto* ranges = std::get_if<trace::Flat>(&placement)) part = {ranges, i};
      below.array = cut_naively(above.array, placement, held.size(), i, dealt_.fits);
      descend(a + 1, below, part);
    }
  }

  void finish(NaiveHolder holder, FlatPart flat) {
    holder.rank = mesh_.ranks.empty() ? holder.linear : mesh_.ranks[holder.linear];
    for (const auto& [axis, placement] : entry_.placements) {
      const auto* rows = std::get_if<trace::Rows>(&placement);
      if (rows == nullptr) continue;
      // Once, however many axes say it: the index is what all of them together leave.
      holder.array = take(holder.array, rows->dim, rows_[holder.linear], dealt_.fits);
      break;
    }
    holder.dataset = holder.array;
    if (flat.first != nullptr) {
      holder.dataset = take_range(holder.array, *flat.first, flat.second, dealt_.fits);
    }
    dealt_.terms = std::max(dealt_.terms, holder.term + 1);
    dealt_.holders.push_back(std::move(holder));
  }

  const trace::TensorEntry& entry_;
  const trace::Mesh& mesh_;
  const NaiveRows& rows_;
  NaiveDeal dealt_;
};

inline NaiveDeal deal_naively(const trace::TensorEntry& entry, const trace::Mesh& mesh,
                              const NaiveRows& rows = {}) {
  return NaiveDealer(entry, mesh, rows).deal();
}

// The rows that an index with the values `numbers` gives each coordinate.
inline NaiveRows rows_of_index(const trace::TensorEntry& index, const trace::Mesh& mesh,
                               const std::vector<std::int64_t>& numbers) {
  std::uint64_t size = 1;
  for (const trace::MeshAxis& axis : mesh.axes) size *= axis.size;
  NaiveRows rows(size);
  for (const NaiveHolder& holder : deal_naively(index, mesh).holders) {
    for (const std::int64_t element : holder.dataset.elements) {
      rows[holder.linear].push_back(numbers.at(static_cast<std::size_t>(element)));
    }
  }
  return rows;
}

// How many of the different parts each element of the tensor is in; all 1 where the layout is
// sound.
inline std::vector<int> times_held(const NaiveDeal& deal, std::uint64_t elements) {
  std::vector<int> times(elements, 0);
  std::vector<bool> seen;
  for (const NaiveHolder& holder : deal.holders) {
    if (seen.size() <= holder.block) seen.resize(holder.block + 1, false);
    if (seen[holder.block]) continue;
    seen[holder.block] = true;
    for (const std::int64_t element : holder.dataset.elements) {
      if (element >= 0) ++times[static_cast<std::size_t>(element)];
    }
  }
  return times;
}

}  // namespace ttrace::test
