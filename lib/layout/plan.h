// From placements to boxes: which boxes of a logical tensor each rank has, and how they make up its
// value. Pure functions of the manifest; no file is touched.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "layout/local_layout.h"
#include "layout/mesh.h"
#include "trace/manifest.h"

namespace ttrace::layout {

// Ranks that have replicas of the same values, which are expected to be equal bit by bit.
struct Term {
  std::vector<std::uint64_t> ranks;
};

// A shard of the logical tensor, as the ranks of all its terms have it. Its value is the reduction
// of the terms (one, unless partial).
struct Block {
  LocalLayout held;
  std::vector<Term> terms;
};

// How terms become a value: their maximum, or their sum times `factor` (1 for sums, 1 / terms for
// means; a product of those over several axes).
struct Combination {
  bool maximum = false;
  double factor = 1;
};

// Returns how the terms of a partial tensor become its value. Throws an input error if the axes'
// reductions cannot be combined.
Combination combination_of(const std::vector<AxisView>& views);

struct Plan {
  // Together they have every element of the tensor once; blocks without elements are left out.
  std::vector<Block> blocks;
  Combination combination;
};

// For a tensor placed by rows: the numbers in a rank's shard of its index tensor. A negative one is
// a row of padding. May throw.
using RowNumbers = std::function<std::vector<std::int64_t>(std::uint64_t rank)>;

// Throws an input error with a JSON pointer relative to the entry ("placements/tp: ...") if the
// placements contradict each other or the shape, and if no coordinate or more than one has a row.
// Boxes and flat ranges are not checked here: call layout_problems() first.
Plan plan_layout(const trace::TensorEntry& entry, const trace::Mesh& mesh,
                 const RowNumbers& rows = {});

// What the rank at `coordinates` has (perhaps no elements), or nothing if the tensor is not held
// there. Its cost does not depend on the other ranks. Throws as plan_layout.
std::optional<LocalLayout> local_layout(const trace::TensorEntry& entry, const trace::Mesh& mesh,
                                        const std::vector<std::uint64_t>& coordinates,
                                        const RowNumbers& rows = {});

}  // namespace ttrace::layout
