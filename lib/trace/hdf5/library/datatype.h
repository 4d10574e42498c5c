// Element types as HDF5 types, bit by bit. HDF5 1.10 has no names for bfloat16 and FP8, so they are
// described by their fields.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "tensor/dtype.h"
#include "trace/hdf5/library/library.h"

namespace ttrace::trace::hdf5 {

// The type of schemas/trace-v2.md for `dtype`.
Handle make_datatype(tensor::DType dtype);

// The element type that `type` describes exactly, or nothing (another byte order, width or layout).
std::optional<tensor::DType> recognise_datatype(hid_t type);

}  // namespace ttrace::trace::hdf5
