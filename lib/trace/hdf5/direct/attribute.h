// Reads attributes without the library's decoder.
//
// HDF5 1.10 decodes a damaged attribute without checking where it ends (H5O_attr_decode), so that
// reports showed the memory behind it, different in every run. Here every length is checked against
// the message that holds it (https://docs.hdfgroup.org/hdf5/v1_14/_f_m_t3.html, IV.A.2.m).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>

#include "trace/hdf5/library/library.h"

namespace ttrace::trace::hdf5 {

// One string, one whole number from 0 on, or something else or damaged.
using AttributeValue = std::variant<std::monostate, std::string, std::uint64_t>;

// The attribute `name` of a dataset or group, or (of a file) of its root group. Nothing if there is
// none, and none is seen in files that were not opened by the checked driver, have a user block or
// addresses of other than 8 bytes, keep the object's attributes in a heap of their own (more than 8
// in the latest format), or have a damaged object header. Throws an input error naming `what` if
// an attribute is longer than its place in the header, or the file cannot be read any more. Hold a
// LibraryLock.
std::optional<AttributeValue> read_attribute(hid_t object, const std::string& name,
                                             const std::string& what);

// Whether addresses in the file behind `object` have 8 bytes and count from its start.
bool counts_from_start(hid_t object);

}  // namespace ttrace::trace::hdf5
