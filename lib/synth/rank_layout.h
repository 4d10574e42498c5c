// What each rank of a recipe holds of a group's tensors. All tensors of a group have one layout, so
// one answer serves the whole group.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "layout/plan.h"
#include "synth/recipe.h"

namespace ttrace::synth {

// The local layout of the group's tensors on the rank at `coordinates` of the group's mesh, or
// nothing if the rank holds none of them. Ignores `stages`, which determine the tensors, not their
// layout.
std::optional<layout::LocalLayout> local_layout_of(const Recipe& recipe, const Group& group,
                                                   const std::vector<std::uint64_t>& coordinates);

// The first two different local layouts of equal shape, in the order of the coordinates; nothing if
// there are no two.
std::optional<std::pair<layout::LocalLayout, layout::LocalLayout>> shards_to_swap(
    const Recipe& recipe, const Group& group);

// The axis over which the tensor is a sum or mean of several ranks, and its last coordinate that
// holds a term.
struct DroppedTerm {
  std::size_t axis = 0;
  std::uint64_t coordinate = 0;
};
std::optional<DroppedTerm> dropped_term(const trace::Mesh& mesh, const trace::TensorEntry& entry);

// The bytes of all datasets of all ranks, or nothing if they overflow 64 bits.
std::optional<std::uint64_t> stored_bytes(const Recipe& recipe);

}  // namespace ttrace::synth
