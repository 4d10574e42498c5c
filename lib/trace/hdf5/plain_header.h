// The header of a dataset as HDF5 writes it by default, read straight from the file.
//
// Opening a dataset through the library takes 20 µs behind the one lock of all files and threads,
// most of it for property lists that a trace has no use for: a hundred thousand small tensors were
// slower to open than to compare. Only the plainest header is understood (object header version 1
// of https://docs.hdfgroup.org/hdf5/v1_14/_f_m_t3.html, IV.A.1.a; one contiguous piece, no filters,
// nothing shared or external); anything else, and all that is wrong, is the library's to read and
// to refuse.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "trace/hdf5/checked_driver.h"
#include "trace/source.h"

namespace ttrace::trace::hdf5 {

struct PlainHeader {
  DatasetFacts facts;
  std::uint64_t offset = 0;  // of the elements, in row-major order
  std::uint64_t bytes = 0;   // above 0; they lie within the file
};

// The header at `address` of a file without a user block, of 8-byte addresses and sizes; nothing if
// it is not of the plain kind. Throws an input error naming `what` if the file cannot be read any
// more. Hold no LibraryLock: element types are set up under it when this is first called.
std::optional<PlainHeader> read_plain_header(const OpenFile& file, std::uint64_t address,
                                             const std::string& what);

}  // namespace ttrace::trace::hdf5
