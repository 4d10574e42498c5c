// Bytes: arithmetic that cannot wrap, exact encoding of values, base64 and a checksum.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ttrace::base {

// Arithmetic on numbers that come from files: nothing where the result does not fit 64 bits.

inline std::optional<std::uint64_t> checked_mul(std::uint64_t a, std::uint64_t b) {
  std::uint64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) return std::nullopt;
  return product;
}

inline std::optional<std::uint64_t> checked_add(std::uint64_t a, std::uint64_t b) {
  std::uint64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) return std::nullopt;
  return sum;
}

// Encodes values exactly, with the same bytes on every machine. For data that only ttrace reads;
// people and other programs get JSON.
class ByteWriter {
 public:
  void count(std::uint64_t value);  // 7 bits per byte, lowest first
  void number(double value);        // binary64, little-endian
  void text(std::string_view value);

  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

// Decodes what ByteWriter encoded. The input is not trusted: every member function throws an input
// error, without a file name, if the bytes end early or cannot come from a ByteWriter.
class ByteReader {
 public:
  // `bytes` must outlive the reader.
  explicit ByteReader(std::string_view bytes) : bytes_(bytes) {}

  std::uint64_t count();
  // The number of items that follow, each of at least one byte. Never more than the bytes left.
  std::uint64_t items();
  bool flag();
  double number();
  std::string text();
  // Throws if bytes are left over.
  void finish() const;

 private:
  std::string_view take(std::uint64_t bytes);

  std::string_view bytes_;
};

// RFC 4648, with padding.
std::string base64(std::string_view bytes);
// The inverse. Throws an input error for text that base64() cannot have produced.
std::string from_base64(std::string_view text);

// The 64-bit FNV-1a hash (Fowler, Noll, Vo; RFC 9923). As a checksum it detects damage, not
// forgery.
std::uint64_t fnv1a(std::string_view bytes);

}  // namespace ttrace::base
