#include "trace/hdf5/direct/attribute.h"

#if H5_VERSION_GE(1, 12, 0)
#include <H5VLnative.h>
#endif

#include <span>
#include <string_view>

#include "base/error.h"
#include "trace/hdf5/direct/object_header.h"

namespace ttrace::trace::hdf5 {
namespace {

using Bytes = std::span<const std::byte>;

constexpr std::uint64_t kAttribute = 0x0c;
constexpr std::uint64_t kShared = 2;

enum Class : std::uint64_t { kInteger = 0, kString = 3, kVariableLength = 9 };

std::string_view text_of(Bytes bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return text.substr(0, text.find('\0'));
}

// Where the parts of an attribute's message lie.
struct Parts {
  std::string_view name;
  Bytes type;
  Bytes space;
  Bytes value;
  bool shared = false;  // the type or the space lies elsewhere
};

std::optional<Parts> parts_of(Bytes message) {
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
  return Parts{text_of(*name), *type, *space, message.subspan(at),
               version > 1 && number_at(message, 1, 1) != 0};
}

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

AttributeValue whole_number(const Parts& parts, std::uint64_t size) {
  if (size == 0 || size > 8 || parts.type.size() < 12 || parts.value.size() < size) return {};
  const bool big_endian = (number_at(parts.type, 1, 1) & 1U) != 0;
  const bool is_signed = (number_at(parts.type, 1, 1) & 8U) != 0;
  const bool plain = number_at(parts.type, 8, 2) == 0 && number_at(parts.type, 10, 2) == 8 * size;
  if (big_endian || !plain) return {};
  const std::uint64_t value = number_at(parts.value, 0, size);
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

AttributeValue value_of(const Parts& parts, const OpenFile& file, const std::string& what) {
  if (parts.shared || parts.type.size() < 8 || !is_one_element(parts.space)) return {};
  const std::uint64_t size = number_at(parts.type, 4, 4);
  switch (number_at(parts.type, 0, 1) & 0x0fU) {
    case kInteger:
      return whole_number(parts, size);
    case kString:
      if (size > parts.value.size()) return {};
      return std::string(text_of(parts.value.first(size)));
    case kVariableLength: {
      constexpr std::uint64_t kOfCharacters = 1;
      if ((number_at(parts.type, 1, 1) & 0x0fU) != kOfCharacters || parts.value.size() < 16) {
        return {};
      }
      return text_in_heap(file, number_at(parts.value, 4, 8), number_at(parts.value, 12, 4),
                          number_at(parts.value, 0, 4), what);
    }
    default:
      return {};
  }
}

// Of the header of `object`.
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

}  // namespace

std::optional<AttributeValue> read_attribute(hid_t object, const std::string& name,
                                             const std::string& what) {
  const auto file = open_file_of(object);
  if (!file || !counts_from_start(object)) return std::nullopt;
  const auto address = address_of(object);
  if (!address) return std::nullopt;
  const auto messages = read_header_messages(*file, *address, what);
  if (!messages) return std::nullopt;
  for (const HeaderMessage& message : *messages) {
    if (message.kind != kAttribute || (message.flags & kShared) != 0) continue;
    const auto parts = parts_of(message.bytes);
    if (!parts) {
      throw base::input_error(what,
                              ": an attribute in its object header is longer than its place, so "
                              "the file is damaged; dump again");
    }
    if (parts->name == name) return value_of(*parts, *file, what);
  }
  return std::nullopt;
}

bool counts_from_start(hid_t object) {
  const Handle file(H5Iget_file_id(object), H5Fclose);
  const Handle creation(H5Fget_create_plist(file.get()), H5Pclose);
  hsize_t user_block = 1;
  std::size_t address_bytes = 0;
  std::size_t size_bytes = 0;
  return H5Pget_userblock(creation.get(), &user_block) >= 0 && user_block == 0 &&
         H5Pget_sizes(creation.get(), &address_bytes, &size_bytes) >= 0 && address_bytes == 8 &&
         size_bytes == 8;
}

}  // namespace ttrace::trace::hdf5
