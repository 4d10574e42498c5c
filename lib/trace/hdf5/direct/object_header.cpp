#include "trace/hdf5/direct/object_header.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <string_view>

#include "trace/hdf5/direct/raw_range.h"

namespace ttrace::trace::hdf5 {
namespace {

using Bytes = std::span<const std::byte>;

constexpr std::uint64_t kContinuation = 0x10;
constexpr std::uint64_t kLargestBlock = std::uint64_t{1} << 20;
constexpr std::size_t kMostBlocks = 256;
constexpr std::size_t kSignatureBytes = 4;
constexpr std::size_t kChecksumBytes = 4;

struct Block {
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
};

// How messages are laid out in a version of the header.
struct Format {
  unsigned version = 1;
  std::size_t prefix_bytes = 8;  // of a message
  std::uint64_t messages = 0;    // in version 1, how many there are
};

struct Reading {
  Format format;
  std::vector<Block> blocks;
  std::vector<HeaderMessage> messages;
};

bool is_signed(Bytes bytes, std::string_view signature) {
  return bytes.size() >= signature.size() &&
         std::memcmp(bytes.data(), signature.data(), signature.size()) == 0;
}

// False: damaged.
bool take_messages(Bytes block, Reading& reading) {
  const Format& format = reading.format;
  std::size_t at = 0;
  while (block.size() - at >= format.prefix_bytes) {
    if (format.version == 1 && reading.messages.size() >= format.messages) return true;
    HeaderMessage message;
    const bool old = format.version == 1;
    message.kind = number_at(block, at, old ? 2 : 1);
    const std::size_t size = number_at(block, at + (old ? 2 : 1), 2);
    message.flags = number_at(block, at + (old ? 4 : 3), 1);
    at += format.prefix_bytes;
    if (size > block.size() - at) return false;
    const Bytes bytes = block.subspan(at, size);
    at += size;
    message.bytes.assign(bytes.begin(), bytes.end());
    if (message.kind == kContinuation) {
      if (size < 16 || reading.blocks.size() == kMostBlocks) return false;
      reading.blocks.push_back({number_at(bytes, 0, 8), number_at(bytes, 8, 8)});
    }
    reading.messages.push_back(std::move(message));
  }
  return true;
}

// The block that begins at the header, or nothing if there is no header.
std::optional<Block> first_block(const OpenFile& file, std::uint64_t address, Format& format,
                                 const std::string& what) {
  if (address > file.end) return std::nullopt;
  const auto prefix =
      read_header_bytes(file, address, std::min<std::uint64_t>(48, file.end - address), what);
  if (!prefix || prefix->size() < 16) return std::nullopt;
  if (!is_signed(*prefix, "OHDR")) {
    if (number_at(*prefix, 0, 1) != 1) return std::nullopt;
    format.messages = number_at(*prefix, 2, 2);
    return Block{address + 16, number_at(*prefix, 8, 4)};
  }
  const std::uint64_t flags = number_at(*prefix, 5, 1);
  std::size_t at = 6;
  if ((flags & 0x20U) != 0) at += 16;  // times
  if ((flags & 0x10U) != 0) at += 4;   // when attributes go into a heap
  const std::size_t width = std::size_t{1} << (flags & 3U);
  if (number_at(*prefix, 4, 1) != 2 || prefix->size() < at + width) return std::nullopt;
  format = {2, (flags & 4U) != 0 ? std::size_t{6} : std::size_t{4},
            std::numeric_limits<std::uint64_t>::max()};
  return Block{address + at + width, number_at(*prefix, at, width)};
}

}  // namespace

std::uint64_t number_at(Bytes bytes, std::size_t at, std::size_t width) {
  std::uint64_t value = 0;
  for (std::size_t i = width; i-- > 0;) {
    value = value << 8 | std::to_integer<std::uint64_t>(bytes[at + i]);
  }
  return value;
}

std::optional<std::vector<std::byte>> read_header_bytes(const OpenFile& file, std::uint64_t offset,
                                                        std::uint64_t bytes,
                                                        const std::string& what) {
  if (bytes > kLargestBlock || offset > file.end || bytes > file.end - offset) return std::nullopt;
  std::vector<std::byte> block(bytes);
  RawRange{file.descriptor, offset, bytes}.read_all(block, what);
  return block;
}

std::optional<std::vector<HeaderMessage>> read_header_messages(const OpenFile& file,
                                                               std::uint64_t address,
                                                               const std::string& what) {
  Reading reading;
  const auto first = first_block(file, address, reading.format, what);
  if (!first) return std::nullopt;
  reading.blocks.push_back(*first);
  for (std::size_t i = 0; i < reading.blocks.size(); ++i) {
    const Block place = reading.blocks[i];
    const auto block = read_header_bytes(file, place.offset, place.bytes, what);
    if (!block) return std::nullopt;
    Bytes messages(*block);
    if (reading.format.version == 2 && i > 0) {
      if (!is_signed(messages, "OCHK") || messages.size() < kSignatureBytes + kChecksumBytes) {
        return std::nullopt;
      }
      messages =
          messages.subspan(kSignatureBytes, messages.size() - kSignatureBytes - kChecksumBytes);
    }
    if (!take_messages(messages, reading)) return std::nullopt;
  }
  return std::move(reading.messages);
}

}  // namespace ttrace::trace::hdf5
