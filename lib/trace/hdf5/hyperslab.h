// A box as HDF5 understands it.
#pragma once

#include "tensor/box.h"
#include "trace/hdf5/handle.h"

namespace ttrace::trace::hdf5 {

// Selects `box` in the file's dataspace `space` and returns the dataspace of a dense buffer of its
// shape. Hold a LibraryLock.
Handle select_box(hid_t space, const tensor::Box& box);

}  // namespace ttrace::trace::hdf5
