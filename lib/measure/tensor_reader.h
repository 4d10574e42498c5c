// A logical tensor that can be read by boxes of its own coordinates, however it is composed.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "layout/view.h"
#include "measure/block_reader.h"
#include "measure/shard_reader.h"
#include "trace/source.h"

namespace ttrace::measure {

// Boxes of a tensor that the same ranks hold.
struct RankBoxes {
  std::vector<tensor::Box> boxes;
  std::vector<std::uint64_t> ranks;  // ascending; empty for padding, which no rank holds
  // Which one of the tensors that a tensor is composed of ("mb 1", "layers.0.q"), or empty.
  std::string part;

  bool operator==(const RankBoxes&) const = default;
};

// Identifies a block of one of the tensors that a tensor is composed of; the same in every reader
// of a view.
using CheckPath = std::vector<std::size_t>;
using VisitCheck = std::function<void(const CheckPath& path, const ReplicaCheck& check)>;

// Belongs to one thread; cheap to create.
class TensorReader {
 public:
  virtual ~TensorReader() = default;

  // Reads the logical values of `box`, row-major. Throws an input error if a shard is missing or
  // wrong.
  virtual void read(const tensor::Box& box, std::span<double> out) = 0;
  // Returns the values as stored if the box lies in a single shard, whose values are floating-point
  // numbers that are only scaled; else nothing: call read. Valid until the next read of any kind.
  virtual std::optional<StoredValues> read_stored(const tensor::Box&) { return std::nullopt; }
  // The same without reading, if they lie in the memory of a device that `backend` reads.
  virtual std::optional<StoredValues> values_on_device(const tensor::Box&, const Backend&) {
    return std::nullopt;
  }
  // Reads exact integers, for tensors of an integer type or bool; a uint64 keeps its bits.
  virtual void read_integers(const tensor::Box& box, std::span<std::int64_t> out) = 0;

  // Disjoint; together the whole tensor.
  virtual std::vector<RankBoxes> rank_boxes() const = 0;

  // Returns the rank that holds the element at `point`: the first replica of the first term.
  // Nothing for padding and for sums of several tensors.
  virtual std::optional<ElementPlace> locate(const tensor::Shape& point) const = 0;

  // Visits the replica check of each block read so far; a path may be visited more than once.
  virtual void for_each_check(const VisitCheck& visit) const = 0;
  virtual std::uint64_t bytes_read() const = 0;
};

// Returns the stored tensor in which the block of `path` lies; null if `view` has no such path.
const trace::TensorEntry* stored_at(const layout::View& view, const CheckPath& path);

// A reader that checks replicas must read each element once only, or its differences count twice.
// `view` must outlive the reader.
std::unique_ptr<TensorReader> make_reader(const trace::Source& source, const layout::View& view,
                                          Replicas replicas);

// A tensor of a trace.
struct TensorRef {
  // Opens the tensor in another way than make_reader does: from memory, or with a planted fault.
  // The reader has the view's shape.
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

}  // namespace ttrace::measure
