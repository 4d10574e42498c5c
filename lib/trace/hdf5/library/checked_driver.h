// How HDF5 reads an untrusted file: a read-only file driver that checks every address.
//
// HDF5's own drivers let the library keep a cache of metadata bytes that trusts the addresses in
// the file: with a damaged one, 1.10.8 crashes in it (H5F__accum_read). This driver does not offer
// that cache, refuses reads beyond the end of the file, and takes no file locks, which read-only
// and network file systems often lack.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "trace/hdf5/library/library.h"
#include "trace/range/open_file.h"

namespace ttrace::trace::hdf5 {

// Makes files opened with the access list `access` go through the driver. Hold a LibraryLock.
void use_checked_driver(hid_t access);

// The errno of the driver's last attempt to open a file, 0 if it succeeded. Hold a LibraryLock.
int last_open_error();

// The errno of the driver's first read that has failed since it was forgotten; 0 if none has. HDF5
// itself says of a name that it could not look up only that it was not found. Hold a LibraryLock.
int first_read_error();
void forget_read_error();

using range::OpenFile;

// The file behind `object` (a dataset of it), if the driver opened it. Hold a LibraryLock.
std::optional<OpenFile> open_file_of(hid_t object);

}  // namespace ttrace::trace::hdf5
