#include "base/checksum.h"

#include <array>
#include <bit>
#include <cstring>

namespace ttrace::base {
namespace {

// The primes of the specification.
constexpr std::uint64_t kPrime1 = 0x9E3779B185EBCA87U;
constexpr std::uint64_t kPrime2 = 0xC2B2AE3D27D4EB4FU;
constexpr std::uint64_t kPrime3 = 0x165667B19E3779F9U;
constexpr std::uint64_t kPrime4 = 0x85EBCA77C2B2AE63U;
constexpr std::uint64_t kPrime5 = 0x27D4EB2F165667C5U;
constexpr std::size_t kStripe = 32;

template <typename Number>
std::uint64_t number_at(const std::byte* bytes) {
  static_assert(std::endian::native == std::endian::little);
  Number number;
  std::memcpy(&number, bytes, sizeof(Number));
  return number;
}

std::uint64_t round(std::uint64_t lane, std::uint64_t input) {
  return std::rotl(lane + input * kPrime2, 31) * kPrime1;
}

// Sums all whole stripes, and sets `bytes` to the rest behind them.
std::uint64_t sum_of_stripes(std::span<const std::byte>& bytes, std::uint64_t seed) {
  std::array<std::uint64_t, 4> lanes{seed + kPrime1 + kPrime2, seed + kPrime2, seed,
                                     seed - kPrime1};
  const std::byte* at = bytes.data();
  for (std::size_t left = bytes.size() / kStripe; left > 0; --left) {
    for (std::size_t i = 0; i < lanes.size(); ++i, at += 8) {
      lanes[i] = round(lanes[i], number_at<std::uint64_t>(at));
    }
  }
  bytes = bytes.last(bytes.size() % kStripe);
  std::uint64_t sum = std::rotl(lanes[0], 1) + std::rotl(lanes[1], 7) + std::rotl(lanes[2], 12) +
                      std::rotl(lanes[3], 18);
  for (const std::uint64_t lane : lanes) sum = (sum ^ round(0, lane)) * kPrime1 + kPrime4;
  return sum;
}

std::uint64_t with_rest(std::uint64_t sum, std::span<const std::byte> bytes) {
  for (; bytes.size() >= 8; bytes = bytes.subspan(8)) {
    sum ^= round(0, number_at<std::uint64_t>(bytes.data()));
    sum = std::rotl(sum, 27) * kPrime1 + kPrime4;
  }
  if (bytes.size() >= 4) {
    sum ^= number_at<std::uint32_t>(bytes.data()) * kPrime1;
    sum = std::rotl(sum, 23) * kPrime2 + kPrime3;
    bytes = bytes.subspan(4);
  }
  for (const std::byte byte : bytes) {
    sum ^= std::to_integer<std::uint64_t>(byte) * kPrime5;
    sum = std::rotl(sum, 11) * kPrime1;
  }
  return sum;
}

}  // namespace

std::uint64_t xxh64(std::span<const std::byte> bytes, std::uint64_t seed) {
  const std::size_t size = bytes.size();
  std::uint64_t sum = size < kStripe ? seed + kPrime5 : sum_of_stripes(bytes, seed);
  sum = with_rest(sum + size, bytes);
  sum = (sum ^ (sum >> 33)) * kPrime2;
  sum = (sum ^ (sum >> 29)) * kPrime3;
  return sum ^ (sum >> 32);
}

}  // namespace ttrace::base
