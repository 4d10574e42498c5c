// One tensor of the candidate held against the reference, and the reference against its disturbed
// runs, in one pass. Measures; whether the result is good is for tolerance and verdict.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "compare/tensor_reader.h"
#include "compare/tile_stats.h"
#include "layout/view.h"
#include "trace/source.h"

namespace ttrace::compare {

// A tensor of a trace.
struct TensorRef {
  const trace::Source* source = nullptr;
  layout::ViewPtr view;

  TensorRef() = default;
  TensorRef(const trace::Source* from, layout::ViewPtr what)
      : source(from), view(std::move(what)) {}
  // The stored tensor itself; `entry` must outlive it.
  TensorRef(const trace::Source* from, const trace::TensorEntry* entry)
      : source(from), view(layout::view_of(*entry)) {}
};

struct BlockStats {
  std::vector<tensor::Box> boxes;    // coordinates of the logical tensor
  std::vector<std::uint64_t> ranks;  // of the candidate that hold it
  TileStats stats;
  std::string part = "";  // as Region's
};

// Copies that should be equal and are not, in the candidate.
struct ReplicaDifference {
  double distance_norm = 0;  // largest over replicas: ‖replica - first replica‖, whole tensor
  std::vector<std::vector<std::uint64_t>> classes;  // of the block where they are furthest apart
};

struct Measurement {
  TileStats total;
  std::vector<BlockStats> blocks;   // one per shard of the candidate, replicas together
  std::vector<double> noise_norms;  // ‖R' - R‖ of every noise run, infinite if it is not finite
  bool has_replicas = false;        // the candidate's layout has copies that were checked
  bool replicas_differ = false;
  ReplicaDifference replicas;
  std::optional<Place> largest_place;  // of total.largest in the candidate
  std::uint64_t bytes_read = 0;
};

// `noise` must have the shape of `reference`, as must `candidate`. Reads both tensors slab by slab
// in bounded memory, never a whole tensor. Integers and bool are compared exactly
// (`total.unequal`). Throws an input error if a shard cannot be read.
Measurement measure(const TensorRef& reference, const TensorRef& candidate,
                    const std::vector<TensorRef>& noise);

}  // namespace ttrace::compare
