// Random meshes and placements, and which elements each coordinate then holds, found without boxes:
// every dimension is a list of indices that the axes cut in turn.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "layout/mesh_map.h"
#include "property/random.h"
#include "support/memory_trace.h"

namespace ttrace::test {

// Up to 3 axes with at most 24 coordinates; perhaps a table of ranks, shuffled and with gaps.
inline trace::Mesh random_mesh(Random& random) {
  trace::Mesh mesh;
  std::uint64_t room = 24;
  const std::uint64_t axes = random.between(0, 3);
  for (std::uint64_t a = 0; a < axes; ++a) {
    const std::uint64_t size = random.between(1, std::min<std::uint64_t>(room, 5));
    mesh.axes.push_back({std::string(1, static_cast<char>('a' + a)), size});
    room /= size;
  }
  if (!random.chance(0.5)) return mesh;
  const std::uint64_t size = layout::mesh_size(mesh);
  for (std::uint64_t i = 0; i < size; ++i) mesh.ranks.push_back(3 * i + 1);
  for (std::uint64_t i = size; i-- > 1;) {
    std::swap(mesh.ranks[i], mesh.ranks[random.between(0, i)]);
  }
  return mesh;
}

// How many parts an axis has for the entry.
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

// Random placements on `mesh` that do not contradict each other. Given sizes only where no other
// axis has cut the dimension, or they would have to fit several lengths.
inline trace::TensorEntry random_entry(Random& random, const trace::Mesh& mesh,
                                       tensor::Shape shape) {
  trace::TensorEntry entry = make_entry("w", std::move(shape));
  const bool maximum = random.chance(0.3);
  std::vector<bool> cut(entry.shape.size(), false);
  for (const trace::MeshAxis& axis : mesh.axes) {
    const std::uint64_t choice = random.between(0, 9);
    if (choice == 0) {
      entry.placements[axis.name] = trace::Only{random.between(0, axis.size - 1)};
      continue;
    }
    if (random.chance(0.25)) {
      std::vector<std::uint64_t> held;
      for (std::uint64_t i = 0; i < axis.size; ++i) {
        if (random.chance(0.6)) held.push_back(i);
      }
      if (!held.empty()) entry.held_at[axis.name] = held;
    }
    if (choice <= 2) {
      const auto reduction = maximum              ? trace::Reduction::kMax
                             : random.chance(0.5) ? trace::Reduction::kSum
                                                  : trace::Reduction::kMean;
      entry.placements[axis.name] = trace::Partial{reduction};
    } else if (choice <= 7 && !entry.shape.empty()) {
      trace::Shard shard{random.between(0, entry.shape.size() - 1), std::nullopt};
      if (!cut[shard.dim] && random.chance(0.5)) {
        const std::size_t parts = held_of(entry, axis).size();
        std::vector<std::uint64_t> sizes(parts, 0);
        std::uint64_t left = entry.shape[shard.dim];
        for (std::size_t i = 0; i + 1 < parts; ++i) left -= sizes[i] = random.between(0, left);
        sizes.back() = left;
        shard.sizes = sizes;
      }
      cut[shard.dim] = true;
      entry.placements[axis.name] = shard;
    } else if (choice == 8) {
      entry.placements[axis.name] = trace::Replicate{};
    }
  }
  return entry;
}

using IndexLists = std::vector<std::vector<std::uint64_t>>;

// The part of `indices` that `part` of `parts` gets.
inline std::vector<std::uint64_t> cut_list(const std::vector<std::uint64_t>& indices,
                                           const trace::Shard& shard, std::size_t parts,
                                           std::size_t part) {
  std::vector<std::vector<std::uint64_t>> dealt(parts);
  std::size_t to = 0;
  for (const std::uint64_t index : indices) {
    while (dealt[to].size() ==
           (shard.sizes ? (*shard.sizes)[to] : (indices.size() + parts - 1) / parts)) {
      ++to;
    }
    dealt.at(to).push_back(index);
  }
  return dealt[part];
}

// For each dimension the indices that `coordinates` hold, or nothing if they hold no part.
inline std::optional<IndexLists> held_indices(const trace::TensorEntry& entry,
                                              const trace::Mesh& mesh,
                                              const std::vector<std::uint64_t>& coordinates) {
  IndexLists lists;
  for (const std::uint64_t extent : entry.shape) {
    std::vector<std::uint64_t> all(extent);
    for (std::uint64_t i = 0; i < extent; ++i) all[i] = i;
    lists.push_back(all);
  }
  for (std::size_t a = 0; a < mesh.axes.size(); ++a) {
    const std::vector<std::uint64_t> held = held_of(entry, mesh.axes[a]);
    std::size_t part = 0;
    while (part < held.size() && held[part] != coordinates[a]) ++part;
    if (part == held.size()) return std::nullopt;
    const auto placed = entry.placements.find(mesh.axes[a].name);
    if (placed == entry.placements.end()) continue;
    if (const auto* shard = std::get_if<trace::Shard>(&placed->second)) {
      lists[shard->dim] = cut_list(lists[shard->dim], *shard, held.size(), part);
    }
  }
  return lists;
}

}  // namespace ttrace::test
