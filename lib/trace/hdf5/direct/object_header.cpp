#include "trace/hdf5/direct/object_header.h"

#if H5_VERSION_GE(1, 12, 0)
#include <H5VLnative.h>
#endif

#include <algorithm>
#include <cstring>
#include <limits>

#include "base/error.h"
#include "trace/range/raw_range.h"

namespace ttrace::trace::hdf5 {
namespace {

using Bytes = std::span<const std::byte>;

constexpr std::uint64_t kContinuationMessage = 0x10;
constexpr std::uint64_t kLargestHeaderBlock = std::uint64_t{1} << 20;
constexpr std::size_t kMostHeaderBlocks = 256;
constexpr std::size_t kSignatureBytes = 4;
constexpr std::size_t kChecksumBytes = 4;

struct HeaderBlock {
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
  std::vector<HeaderBlock> blocks;
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
    if (message.kind == kContinuationMessage) {
      if (size < 16 || reading.blocks.size() == kMostHeaderBlocks) return false;
      reading.blocks.push_back({number_at(bytes, 0, 8), number_at(bytes, 8, 8)});
    }
    reading.messages.push_back(std::move(message));
  }
  return true;
}

// The block that begins at the header, or nothing if there is no header.
std::optional<HeaderBlock> first_block(const OpenFile& file, std::uint64_t address, Format& format,
                                       const std::string& what) {
  if (address > file.end) return std::nullopt;
  const auto prefix =
      read_header_bytes(file, address, std::min<std::uint64_t>(48, file.end - address), what);
  if (!prefix || prefix->size() < 16) return std::nullopt;
  if (!is_signed(*prefix, "OHDR")) {
    if (number_at(*prefix, 0, 1) != 1) return std::nullopt;
    format.messages = number_at(*prefix, 2, 2);
    return HeaderBlock{address + 16, number_at(*prefix, 8, 4)};
  }
  const std::uint64_t flags = number_at(*prefix, 5, 1);
  std::size_t at = 6;
  if ((flags & 0x20U) != 0) at += 16;  // times
  if ((flags & 0x10U) != 0) at += 4;   // when attributes go into a heap
  const std::size_t width = std::size_t{1} << (flags & 3U);
  if (number_at(*prefix, 4, 1) != 2 || prefix->size() < at + width) return std::nullopt;
  format = {2, (flags & 4U) != 0 ? std::size_t{6} : std::size_t{4},
            std::numeric_limits<std::uint64_t>::max()};
  return HeaderBlock{address + at + width, number_at(*prefix, at, width)};
}

// Classes of element types.
enum Class : std::uint64_t { kInteger = 0, kString = 3, kVariableLength = 9 };

std::uint64_t class_of(const AttributeMessage& attribute) {
  return number_at(attribute.type, 0, 1) & 0x0fU;
}

std::string_view text_of(Bytes bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return text.substr(0, text.find('\0'));
}

constexpr std::uint64_t kAttributeMessage = 0x0c;
constexpr std::uint64_t kShared = 2;

bool is_one_element(Bytes space) {
  if (space.size() < 4) return false;
  const std::uint64_t version = number_at(space, 0, 1);
  const std::uint64_t rank = number_at(space, 1, 1);
  const std::size_t begin = version == 1 ? 8 : 4;
  if ((version != 1 && version != 2) || space.size() < begin + 8 * rank) return false;
  // Version 2 says whether there is a scalar (0), a shape (1) or nothing (2).
  if (version == 2 && number_at(space, 3, 1) > 1) return false;
  for (std::uint64_t d = 0; d < rank; ++d) {
    if (number_at(space, begin + 8 * d, 8) != 1) return false;
  }
  return true;
}

AttributeValue whole_number(const AttributeMessage& attribute, std::uint64_t size) {
  if (size == 0 || size > 8 || attribute.type.size() < 12 || attribute.value.size() < size)
    return {};
  const bool big_endian = (number_at(attribute.type, 1, 1) & 1U) != 0;
  const bool is_signed = (number_at(attribute.type, 1, 1) & 8U) != 0;
  const bool plain =
      number_at(attribute.type, 8, 2) == 0 && number_at(attribute.type, 10, 2) == 8 * size;
  if (big_endian || !plain) return {};
  const std::uint64_t value = number_at(attribute.value, 0, size);
  if (is_signed && (value >> (8 * size - 1)) != 0) return {};  // negative
  return value;
}

// An object of the collection of variable-length data at `address`.
AttributeValue text_in_heap(const OpenFile& file, std::uint64_t address, std::uint64_t index,
                            std::uint64_t length, const std::string& what) {
  const auto start = read_header_bytes(file, address, 16, what);
  if (!start || text_of(Bytes(*start).first(4)) != "GCOL") return {};
  const auto heap = read_header_bytes(file, address, number_at(*start, 8, 8), what);
  if (!heap) return {};
  const Bytes all(*heap);
  for (std::size_t at = 16; at + 16 <= all.size();) {
    const std::uint64_t number = number_at(all, at, 2);
    const std::uint64_t size = number_at(all, at + 8, 8);
    at += 16;
    if (number == 0 || size > all.size() - at) return {};
    if (number == index) {
      if (length > size) return {};
      return std::string(text_of(all.subspan(at, length)));
    }
    at += (size + 7) / 8 * 8;
  }
  return {};
}

AttributeValue value_of(const AttributeMessage& attribute, const OpenFile& file,
                        const std::string& what) {
  if (attribute.shared || attribute.type.size() < 8 || !is_one_element(attribute.space)) return {};
  const std::uint64_t size = number_at(attribute.type, 4, 4);
  switch (class_of(attribute)) {
    case kInteger:
      return whole_number(attribute, size);
    case kString:
      if (const auto text = fixed_string(attribute)) return *text;
      return {};
    case kVariableLength: {
      constexpr std::uint64_t kOfCharacters = 1;
      if ((number_at(attribute.type, 1, 1) & 0x0fU) != kOfCharacters ||
          attribute.value.size() < 16) {
        return {};
      }
      return text_in_heap(file, number_at(attribute.value, 4, 8), number_at(attribute.value, 12, 4),
                          number_at(attribute.value, 0, 4), what);
    }
    default:
      return {};
  }
}

// The file address of the header of `object`.
std::optional<std::uint64_t> address_of(hid_t object) {
#if H5_VERSION_GE(1, 12, 0)
  H5O_info2_t info;
  haddr_t address = HADDR_UNDEF;
  const bool known = H5Oget_info3(object, &info, H5O_INFO_BASIC) >= 0 &&
                     H5VLnative_token_to_addr(object, info.token, &address) >= 0;
  if (known && address != HADDR_UNDEF) return address;
#else
  H5O_info_t info;
  if (H5Oget_info2(object, &info, H5O_INFO_BASIC) >= 0) return info.addr;
#endif
  H5Eclear2(H5E_DEFAULT);
  return std::nullopt;
}

// Whether addresses in the file have 8 bytes and count from its start: the superblock (II.A of the
// format's specification) stands there. The library would copy a list of properties to say so,
// which takes longer than the rest of reading an attribute.
bool counts_from_start(const OpenFile& file, const std::string& what) {
  const auto block = read_header_bytes(file, 0, std::min<std::uint64_t>(16, file.end), what);
  if (!block || block->size() < 16 || !is_signed(*block, "\x89HDF\r\n\x1a\n")) return false;
  const std::size_t sizes = number_at(*block, 8, 1) < 2 ? 13 : 9;
  return number_at(*block, sizes, 1) == 8 && number_at(*block, sizes + 1, 1) == 8;
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
  if (bytes > kLargestHeaderBlock || offset > file.end || bytes > file.end - offset)
    return std::nullopt;
  std::vector<std::byte> block(bytes);
  range::RawRange{file.descriptor, offset, bytes}.read_all(block, what);
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
    const HeaderBlock place = reading.blocks[i];
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

std::optional<AttributeMessage> parse_attribute(Bytes message) {
  if (message.size() < 8) return std::nullopt;
  const std::uint64_t version = number_at(message, 0, 1);
  if (version < 1 || version > 3) return std::nullopt;
  // Version 1 pads every part to 8 bytes; version 3 says the character set of the name.
  std::size_t at = version == 3 ? 9 : 8;
  const auto take = [&](std::size_t length) -> std::optional<Bytes> {
    const std::size_t padded = version == 1 ? (length + 7) / 8 * 8 : length;
    if (at > message.size() || padded > message.size() - at) return std::nullopt;
    const Bytes part = message.subspan(at, length);
    at += padded;
    return part;
  };
  const auto name = take(number_at(message, 2, 2));
  const auto type = take(number_at(message, 4, 2));
  const auto space = take(number_at(message, 6, 2));
  if (!name || !type || !space) return std::nullopt;
  return AttributeMessage{text_of(*name), *type, *space, message.subspan(at),
                          version > 1 && number_at(message, 1, 1) != 0};
}

std::optional<std::string> fixed_string(const AttributeMessage& attribute) {
  if (attribute.shared || attribute.type.size() < 8 || class_of(attribute) != kString) {
    return std::nullopt;
  }
  const std::uint64_t size = number_at(attribute.type, 4, 4);
  if (size > attribute.value.size()) return std::nullopt;
  return std::string(text_of(attribute.value.first(size)));
}

std::optional<AttributeValue> read_attribute(hid_t object, const std::string& name,
                                             const std::string& what) {
  const auto file = open_file_of(object);
  if (!file || !counts_from_start(*file, what)) return std::nullopt;
  const auto address = address_of(object);
  if (!address) return std::nullopt;
  const auto messages = read_header_messages(*file, *address, what);
  if (!messages) return std::nullopt;
  for (const HeaderMessage& message : *messages) {
    if (message.kind != kAttributeMessage || (message.flags & kShared) != 0) continue;
    const auto attribute = parse_attribute(message.bytes);
    if (!attribute) {
      throw base::input_error(what,
                              ": an attribute in its object header is longer than its place, so "
                              "the file is damaged; dump again");
    }
    if (attribute->name == name) return value_of(*attribute, *file, what);
  }
  return std::nullopt;
}

}  // namespace ttrace::trace::hdf5
