#include "synth/philox.h"

namespace ttrace::synth {
namespace {

constexpr std::uint64_t kMultipliers[] = {0xD2511F53, 0xCD9E8D57};
constexpr std::uint32_t kWeyl[] = {0x9E3779B9, 0xBB67AE85};
constexpr int kRounds = 10;

std::uint32_t low(std::uint64_t value) { return static_cast<std::uint32_t>(value); }
std::uint32_t high(std::uint64_t value) { return static_cast<std::uint32_t>(value >> 32); }

}  // namespace

Words philox4x32(Counter counter, std::uint64_t key) {
  std::uint32_t k0 = low(key);
  std::uint32_t k1 = high(key);
  for (int round = 0; round < kRounds; ++round) {
    const std::uint64_t p0 = kMultipliers[0] * counter[0];
    const std::uint64_t p1 = kMultipliers[1] * counter[2];
    counter = {high(p1) ^ counter[1] ^ k0, low(p1), high(p0) ^ counter[3] ^ k1, low(p0)};
    k0 += kWeyl[0];
    k1 += kWeyl[1];
  }
  return counter;
}

}  // namespace ttrace::synth
