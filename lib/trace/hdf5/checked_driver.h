// How HDF5 reads an untrusted file: a read-only file driver that checks every address.
//
// HDF5's own drivers let the library keep a cache of metadata bytes that trusts the addresses in
// the file: with a damaged one, 1.10.8 crashes in it (H5F__accum_read). This driver does not offer
// that cache, refuses reads beyond the end of the file, and takes no file locks, which read-only
// and network file systems often lack.
#pragma once

#include "trace/hdf5/handle.h"

namespace ttrace::trace::hdf5 {

// Makes files opened with the access list `access` go through the driver. Hold a LibraryLock.
void use_checked_driver(hid_t access);

}  // namespace ttrace::trace::hdf5
