// One tensor of the candidate held against the reference, and the reference against its disturbed
// runs, in one pass. Measures; whether the result is good is for tolerance and verdict.
#pragma once

#include <cstdint>
#include <vector>

#include "compare/tile_stats.h"
#include "layout/plan.h"
#include "trace/source.h"

namespace ttrace::compare {

// A tensor in its trace. `noise` must have the shape of `reference`, as must `candidate`.
struct TensorRef {
  const trace::Source* source = nullptr;
  const trace::TensorEntry* entry = nullptr;
};

struct BlockStats {
  tensor::Box box;                   // coordinates of the logical tensor
  std::vector<std::uint64_t> ranks;  // of the candidate that hold it
  TileStats stats;
};

// Copies that should be equal and are not, in the candidate.
struct ReplicaDifference {
  double distance_norm = 0;  // largest over replicas: ‖replica - first replica‖, whole tensor
  std::vector<std::vector<std::uint64_t>> classes;  // of the block where they are furthest apart
};

struct Measurement {
  TileStats total;
  std::vector<BlockStats> blocks;   // one per block of the candidate's layout
  std::vector<double> noise_norms;  // ‖R' - R‖ of every noise run, infinite if it is not finite
  bool has_replicas = false;        // the candidate's layout has copies that were checked
  bool replicas_differ = false;
  ReplicaDifference replicas;
  std::uint64_t bytes_read = 0;
};

// Reads both tensors slab by slab in bounded memory, never a whole tensor. Integers and bool are
// compared exactly (`total.unequal`). Throws an input error if a shard cannot be read.
Measurement measure(const TensorRef& reference, const TensorRef& candidate,
                    const std::vector<TensorRef>& noise);

}  // namespace ttrace::compare
