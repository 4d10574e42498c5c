// Arithmetic on numbers that come from files: a result that does not fit is absent, never wrapped.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ttrace::base {

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

// Values as bytes and bytes as text, exact to the bit and the same on every machine: for what
// ttrace writes for itself to read again. Numbers as people and other programs read them are JSON.

class ByteWriter {
 public:
  void count(std::uint64_t value);  // 7 bits a byte, the lowest first
  void number(double value);        // binary64, little-endian
  void text(std::string_view value);

  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

// Takes apart what ByteWriter wrote. The bytes are somebody else's: all members throw an input
// error, without a file's name, where they end early or hold what cannot have been written.
class ByteReader {
 public:
  // `bytes` must outlive the reader.
  explicit ByteReader(std::string_view bytes) : bytes_(bytes) {}

  std::uint64_t count();
  // How many items follow, of at least one byte each: never more than there are bytes left.
  std::uint64_t items();
  bool flag();
  double number();
  std::string text();
  // Refuses bytes that nothing asked for.
  void finish() const;

 private:
  std::string_view take(std::uint64_t bytes);

  std::string_view bytes_;
};

// RFC 4648, with padding.
std::string base64(std::string_view bytes);
// The inverse; throws an input error for everything that base64() cannot have written.
std::string from_base64(std::string_view text);

// FNV-1a, 64 bits: tells damage from what was written, not a forger.
std::uint64_t checksum(std::string_view bytes);

}  // namespace ttrace::base
