// A fault put into a tensor while it is read: what a bug would have left in it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "measure/measure.h"
#include "tensor/box.h"
#include "tensor/dtype.h"

namespace ttrace::measure {

// All parts are in coordinates of the logical tensor, applied in the order of the members.
struct Fault {
  // The elements of `to` take the values that a box of the same extent at `from` has in `source`.
  struct Move {
    tensor::Box to;
    tensor::Shape from;
  };
  std::vector<Move> moves;
  std::optional<TensorRef> source;    // of the moves; needed where there are any
  std::vector<tensor::Box> zeroed;    // these elements become 0
  double factor = 1;                  // these are multiplied:
  std::optional<tensor::Box> scaled;  // (nothing: all)
  std::optional<tensor::DType> rounded_to;
  // The type in which the faulty run would have stored what it multiplied: a factor that the type
  // cannot show changes nothing. Numbers are stored as value / scale.
  std::optional<tensor::DType> stored_as;
  double scale = 1;
};

// The part of a fault that needs no other tensor, on the values of `slab`, row-major.
void apply_in_place(const Fault& fault, const tensor::Box& slab, std::span<double> values);

// `tensor` with the fault in it. Regions, places and replicas are those of the healthy tensor: all
// copies have the fault. `changed` is increased by the number of elements that were read and are
// not what they were (NaN is NaN), and must outlive the readers. Integers are moved and zeroed
// only.
TensorRef with_fault(const TensorRef& tensor, Fault fault, std::uint64_t& changed);

}  // namespace ttrace::measure
