// One tensor of the candidate held against the reference, in one pass. Measures; whether the result
// is good is for tolerance and verdict.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "layout/view.h"
#include "measure/grid.h"
#include "measure/left_out_rows.h"
#include "measure/tensor_reader.h"
#include "measure/tile_stats.h"
#include "trace/source.h"

namespace ttrace::measure {

// A tensor of a trace.
struct TensorRef {
  // Another way to read the tensor (from memory, with a fault in it): takes the place of
  // make_reader. The reader has the view's shape.
  using Opener = std::function<std::unique_ptr<TensorReader>(Replicas)>;

  const trace::Source* source = nullptr;
  layout::ViewPtr view;
  Opener opener;

  TensorRef() = default;
  TensorRef(const trace::Source* from, layout::ViewPtr what)
      : source(from), view(std::move(what)) {}
  // The stored tensor itself; `entry` must outlive it.
  TensorRef(const trace::Source* from, const trace::TensorEntry* entry)
      : source(from), view(layout::view_of(*entry)) {}

  std::unique_ptr<TensorReader> open(Replicas replicas) const;
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
  CheckPath path = {};                              // of that block
};

struct Measurement {
  TileStats total;
  std::vector<BlockStats> blocks;  // one per shard of the candidate, replicas together
  std::vector<CellSums> cells;     // by the grid asked for: a the reference, b the candidate
  bool has_replicas = false;       // the candidate's layout has copies that were checked
  bool replicas_differ = false;
  ReplicaDifference replicas;
  std::optional<Place> largest_place;  // of total.largest in the candidate
  std::uint64_t bytes_read = 0;
};

// Elements that are read at once, of each tensor and by each thread: enough for few and large
// reads, and few enough to lie in a core's own cache until they are added up.
inline constexpr std::uint64_t kBandElements = std::uint64_t{1} << 16;

// The measurement of one section (sections.h).
struct MeasuredSection {
  Measurement sums;  // without `total`, and of the replicas only that there are some
  std::map<CheckPath, ReplicaCheck> checks;
};

// As measure(), of the elements of `section` alone; throws as it does.
MeasuredSection measure_section(const TensorRef& reference, const TensorRef& candidate,
                                const Grid* grid, const tensor::Box& section,
                                const LeftOutRows* left_out = nullptr);
// `sections`: all of the tensor's, in their order.
Measurement put_together(std::vector<MeasuredSection> sections);

// `candidate` must have the shape of `reference`. Reads both tensors band by band in bounded
// memory, never a whole tensor. Integers and bool are compared exactly (`total.unequal`). `grid`,
// of the same shape: also sums the differences cell by cell; may be null. `left_out`: rows that
// count as equal, of tensors that are compared as floating-point numbers; may be null. Throws an
// input error if a shard cannot be read.
Measurement measure(const TensorRef& reference, const TensorRef& candidate, const Grid* grid,
                    const LeftOutRows* left_out = nullptr);

}  // namespace ttrace::measure
