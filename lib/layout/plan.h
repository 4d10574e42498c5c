// From placements to boxes: which rank holds which part of a logical tensor, and how the parts make
// up its value. Pure functions of the manifest; no file is touched.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "layout/holding.h"
#include "trace/manifest.h"

namespace ttrace::layout {

// Ranks that hold copies of the same numbers; they are expected to be equal bit by bit.
struct Term {
  std::vector<std::uint64_t> ranks;
};

// A part of the logical tensor, as the ranks of all its terms hold it: its value is the reduction
// of its terms (one, unless partial).
struct Block {
  Holding held;
  std::vector<Term> terms;
};

// How terms become a value: their maximum, or their sum times `factor` (1 for sums, 1 / terms for
// means; a product of those over several axes).
struct Combination {
  bool maximum = false;
  double factor = 1;
};

struct Plan {
  // Together they hold every element of the tensor once; blocks without elements are left out.
  std::vector<Block> blocks;
  Combination combination;
};

// For a tensor placed by rows: the numbers in a rank's part of its index tensor. A negative one is
// a row of padding. May throw.
using RowNumbers = std::function<std::vector<std::int64_t>(std::uint64_t rank)>;

// Throws an input error with a JSON pointer relative to the entry ("placements/tp: ...") if the
// placements contradict each other or the shape, and if the rows leave one to nobody or give it to
// two coordinates. Whether boxes and flat ranges do is for layout_problems, and must be known.
Plan plan_layout(const trace::TensorEntry& entry, const trace::Mesh& mesh,
                 const RowNumbers& rows = {});

// What the coordinates' rank holds (perhaps no elements), or nothing if the tensor is not held
// there. Its cost does not depend on the other ranks. Throws as plan_layout.
std::optional<Holding> held_at(const trace::TensorEntry& entry, const trace::Mesh& mesh,
                               const std::vector<std::uint64_t>& coordinates,
                               const RowNumbers& rows = {});

// Everything contradictory in the manifest's layouts, one sentence each with a JSON pointer; empty
// if there is nothing. The rows of index tensors are not looked at, only that there is such a
// tensor and that it fits.
std::vector<std::string> layout_problems(const trace::Manifest& manifest);

}  // namespace ttrace::layout
