// The mesh axes as one tensor sees them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "layout/plan.h"
#include "trace/manifest.h"

namespace ttrace::layout {

struct AxisView {
  const std::string* name = nullptr;
  std::vector<std::uint64_t> held;  // the coordinates that hold the tensor, ascending
  const trace::Placement* placement = nullptr;
};

// One view per mesh axis, in mesh order. They point into `entry` and `mesh`.
std::vector<AxisView> axis_views(const trace::TensorEntry& entry, const trace::Mesh& mesh);

// The rank at the given index within each axis' held coordinates.
std::uint64_t rank_of(const std::vector<AxisView>& views, const trace::Mesh& mesh,
                      const std::vector<std::uint64_t>& position);

// Calls visit(position) for every combination of indices within the axes' held coordinates, in
// row-major order.
template <typename Visit>
void for_each_position(const std::vector<AxisView>& views, Visit visit) {
  std::vector<std::uint64_t> position(views.size(), 0);
  while (true) {
    visit(position);
    std::size_t a = views.size();
    while (a > 0 && ++position[a - 1] == views[a - 1].held.size()) position[--a] = 0;
    if (a == 0) return;
  }
}

// Returns how the terms of a partial tensor become its value. Throws an input error if the axes'
// reductions cannot be combined.
Combination combination_of(const std::vector<AxisView>& views);

}  // namespace ttrace::layout
