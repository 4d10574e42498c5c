// From placements to boxes: which rank holds which part of a logical tensor, and how the parts make
// up its value. Pure functions of the manifest; no file is touched.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tensor/box.h"
#include "trace/manifest.h"

namespace ttrace::layout {

// A rank's dataset, or the part of it that a block covers, in local coordinates.
struct Piece {
  std::uint64_t rank = 0;
  std::vector<std::uint64_t> coordinates;  // of the mesh
  tensor::Box local;
};

// Copies of the same numbers; they are expected to be equal bit by bit.
struct Term {
  std::vector<Piece> replicas;
};

// A part of the logical tensor: its value is the reduction of its terms (one, unless partial).
struct Block {
  tensor::Box global;
  std::vector<Term> terms;
};

// How terms become a value: their maximum, or their sum times `factor` (1 for sums, 1 / terms for
// means; a product of those over several axes).
struct Combination {
  bool maximum = false;
  double factor = 1;
};

struct Plan {
  std::vector<Block>
      blocks;  // disjoint, covering every element; none for a tensor without elements
  Combination combination;
};

// Throws an input error with a JSON pointer relative to the entry ("placements/tp: ...") if the
// placements contradict each other or the shape.
Plan plan_layout(const trace::TensorEntry& entry, const trace::Mesh& mesh);

// The box of the logical tensor that the coordinates' rank holds (possibly empty), or nothing if it
// holds no part. Throws as plan_layout.
std::optional<tensor::Box> held_box(const trace::TensorEntry& entry, const trace::Mesh& mesh,
                                    const std::vector<std::uint64_t>& coordinates);

// Everything contradictory in the manifest's layouts, one sentence each with a JSON pointer; empty
// if there is nothing.
std::vector<std::string> layout_problems(const trace::Manifest& manifest);

}  // namespace ttrace::layout
