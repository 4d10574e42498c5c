// Plants a fault in a tensor while it is read, as a bug would have left it there, and keeps tensors
// in memory so that many faults can be tried.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "measure/measure.h"
#include "measure/tensor_reader.h"
#include "tensor/box.h"
#include "tensor/dtype.h"

namespace ttrace::measure {

// Boxes are in coordinates of the logical tensor. The members are applied in their order.
struct Fault {
  // The elements of `to` take the values that a box of the same extent at `from` has in `source`.
  struct Move {
    tensor::Box to;
    tensor::Shape from;
  };
  std::vector<Move> moves;
  std::optional<TensorRef> source;    // of the moves; needed if there are any
  std::vector<tensor::Box> zeroed;    // these elements become 0
  double factor = 1;                  // multiplies the elements of `scaled`
  std::optional<tensor::Box> scaled;  // nothing: all elements
  std::optional<tensor::DType> rounded_to;
  // The type in which the faulty run would have stored what it multiplied: a factor too close to 1
  // for this type changes nothing. Numbers are stored as value / scale.
  std::optional<tensor::DType> stored_as;
  double scale = 1;
};

// Applies the members that need no other tensor to the values of `box`, row-major.
void apply_in_place(const Fault& fault, const tensor::Box& box, std::span<double> values);

// Returns `tensor` with the fault. Boxes of ranks, places and replicas are those of the healthy
// tensor: all replicas have the fault. Readers increase `changed`, which must outlive them, by the
// number of elements read whose value changed (NaN equals NaN). Integers are only moved and zeroed.
TensorRef with_fault(const TensorRef& tensor, Fault fault, std::uint64_t& changed);

// Reads all of `tensor`, into at most 16 bytes of memory per element, and returns a reference to
// the same tensor that reads from memory. Values, boxes of ranks, places and replica checks are
// those that `tensor` gives with `replicas`, whatever the result is opened with. `exact`: keeps
// integers instead of numbers. Throws an input error if a shard cannot be read. The readers share
// the memory and belong to one thread.
TensorRef keep_in_memory(const TensorRef& tensor, Replicas replicas, bool exact);

}  // namespace ttrace::measure
