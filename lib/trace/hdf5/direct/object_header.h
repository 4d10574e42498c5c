// Reads the messages of any object header, version 1 or 2, and attributes in them, for what the
// library does not check (https://docs.hdfgroup.org/hdf5/v1_14/_f_m_t3.html).
//
// HDF5 1.10 decodes a damaged attribute without checking where it ends (H5O_attr_decode), so that
// reports showed the memory behind it, different in every run. Here every length is checked against
// the message that holds it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "trace/hdf5/library/checked_driver.h"

namespace ttrace::trace::hdf5 {

struct HeaderMessage {
  std::uint64_t kind = 0;   // number in the format's specification, IV.A.2
  std::uint64_t flags = 0;  // 2: shared, so that `bytes` only say where it is
  std::vector<std::byte> bytes;
};

// Little-endian; the caller has seen that there are `width` bytes.
std::uint64_t number_at(std::span<const std::byte> bytes, std::size_t at, std::size_t width);

// The messages of the header at `address`, of a file without a user block and with addresses of 8
// bytes. Nothing if it is no object header or damaged. Throws an input error naming `what` if the
// file cannot be read any more.
std::optional<std::vector<HeaderMessage>> read_header_messages(const OpenFile& file,
                                                               std::uint64_t address,
                                                               const std::string& what);

// `bytes` of the file from `offset` on, or nothing if they do not lie in it or are more than a
// header has.
std::optional<std::vector<std::byte>> read_header_bytes(const OpenFile& file, std::uint64_t offset,
                                                        std::uint64_t bytes,
                                                        const std::string& what);

// Where the parts of an attribute's message lie (IV.A.2.m).
struct AttributeMessage {
  std::string_view name;
  std::span<const std::byte> type;
  std::span<const std::byte> space;
  std::span<const std::byte> value;
  bool shared = false;  // the type or the space lies elsewhere
};

// Nothing if a part is longer than its place in the message.
std::optional<AttributeMessage> parse_attribute(std::span<const std::byte> message);

// The value as a string of fixed length; nothing if it is something else, or damaged.
std::optional<std::string> fixed_string(const AttributeMessage& attribute);

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

}  // namespace ttrace::trace::hdf5
