#include "base/bytes.h"

#include <array>
#include <bit>

#include "base/error.h"

namespace ttrace::base {
namespace {

constexpr std::string_view kDigits =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

constexpr std::array<signed char, 256> values_of_digits() {
  std::array<signed char, 256> values{};
  for (signed char& value : values) value = -1;
  for (std::size_t i = 0; i < kDigits.size(); ++i) {
    values[static_cast<unsigned char>(kDigits[i])] = static_cast<signed char>(i);
  }
  return values;
}

constexpr std::array<signed char, 256> kValues = values_of_digits();

std::uint32_t octet(std::string_view bytes, std::size_t i) {
  return i < bytes.size() ? static_cast<unsigned char>(bytes[i]) : 0U;
}

}  // namespace

void ByteWriter::count(std::uint64_t value) {
  while (value >= 0x80) {
    bytes_ += static_cast<char>((value & 0x7f) | 0x80);
    value >>= 7;
  }
  bytes_ += static_cast<char>(value);
}

void ByteWriter::number(double value) {
  const auto bits = std::bit_cast<std::uint64_t>(value);
  for (int shift = 0; shift < 64; shift += 8) bytes_ += static_cast<char>((bits >> shift) & 0xff);
}

void ByteWriter::text(std::string_view value) {
  count(value.size());
  bytes_ += value;
}

std::string_view ByteReader::take(std::uint64_t bytes) {
  if (bytes > bytes_.size()) throw input_error("ends before it is complete");
  const std::string_view taken = bytes_.substr(0, bytes);
  bytes_.remove_prefix(bytes);
  return taken;
}

std::uint64_t ByteReader::count() {
  std::uint64_t value = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    const auto byte = static_cast<unsigned char>(take(1)[0]);
    const std::uint64_t bits = byte & 0x7f;
    if ((bits << shift) >> shift != bits) break;
    value |= bits << shift;
    if ((byte & 0x80) == 0) {
      if (byte == 0 && shift > 0) break;  // not the shortest encoding
      return value;
    }
  }
  throw input_error("has a whole number that does not fit 64 bits");
}

std::uint64_t ByteReader::items() {
  const std::uint64_t items = count();
  if (items > bytes_.size()) throw input_error("ends before it is complete");
  return items;
}

bool ByteReader::flag() {
  const std::uint64_t value = count();
  if (value > 1) throw input_error("has ", value, " where 0 or 1 is expected");
  return value == 1;
}

double ByteReader::number() {
  const std::string_view taken = take(8);
  std::uint64_t bits = 0;
  for (std::size_t i = 8; i-- > 0;) bits = bits << 8 | static_cast<unsigned char>(taken[i]);
  return std::bit_cast<double>(bits);
}

std::string ByteReader::text() { return std::string(take(count())); }

void ByteReader::finish() const {
  if (!bytes_.empty()) throw input_error("has ", bytes_.size(), " bytes after its end");
}

std::string base64(std::string_view bytes) {
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const std::uint32_t group =
        octet(bytes, i) << 16 | octet(bytes, i + 1) << 8 | octet(bytes, i + 2);
    text += kDigits[group >> 18];
    text += kDigits[(group >> 12) & 63];
    text += i + 1 < bytes.size() ? kDigits[(group >> 6) & 63] : '=';
    text += i + 2 < bytes.size() ? kDigits[group & 63] : '=';
  }
  return text;
}

std::string from_base64(std::string_view text) {
  const auto refuse = [] { return input_error("is not base64"); };
  if (text.size() % 4 != 0) throw refuse();
  std::size_t padding = 0;
  while (padding < 2 && padding < text.size() && text[text.size() - 1 - padding] == '=') ++padding;
  std::string bytes;
  bytes.reserve(text.size() / 4 * 3);
  for (std::size_t i = 0; i < text.size(); i += 4) {
    const bool last = i + 4 == text.size();
    const std::size_t missing = last ? padding : 0;
    std::uint32_t group = 0;
    for (std::size_t k = 0; k < 4; ++k) {
      const int value = k >= 4 - missing ? 0 : kValues[static_cast<unsigned char>(text[i + k])];
      if (value < 0) throw refuse();
      group = group << 6 | static_cast<std::uint32_t>(value);
    }
    for (std::size_t k = 0; k < 3; ++k) {
      const std::uint32_t byte = (group >> (16 - 8 * k)) & 0xff;
      if (k < 3 - missing) {
        bytes += static_cast<char>(byte);
      } else if (byte != 0) {
        throw refuse();
      }
    }
  }
  return bytes;
}

std::uint64_t fnv1a(std::string_view bytes) {
  std::uint64_t hash = 0xcbf29ce484222325U;
  for (const char byte : bytes) hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001b3U;
  return hash;
}

}  // namespace ttrace::base
