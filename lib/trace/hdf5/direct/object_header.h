// Reads the messages of any object header, version 1 or 2, for what the library does not check.
//
// direct_file.h has a faster reader for the commonest headers of datasets.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
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

}  // namespace ttrace::trace::hdf5
