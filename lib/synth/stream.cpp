#include "synth/stream.h"

#include <cstddef>
#include <initializer_list>

#include "synth/philox.h"

namespace ttrace::synth {
namespace {

// A name may contain anything but control characters, so no two lists of parts are alike.
std::uint64_t key_of(std::initializer_list<std::string_view> parts) {
  std::string text;
  for (const std::string_view part : parts) {
    if (!text.empty()) text += '\0';
    text += part;
  }
  return fnv1a(text);
}

Words block(std::uint64_t key, std::uint64_t number) {
  const auto lower = static_cast<std::uint32_t>(number);
  const auto upper = static_cast<std::uint32_t>(number >> 32);
  return philox4x32({lower, upper, 0, 0}, key);
}

}  // namespace

std::uint64_t fnv1a(std::string_view text) {
  std::uint64_t hash = 0xCBF29CE484222325;
  for (const char character : text) {
    hash ^= static_cast<unsigned char>(character);
    hash *= 0x100000001B3;
  }
  return hash;
}

Stream Stream::of_tensor(std::uint64_t seed, std::string_view name) {
  return Stream(key_of({"tensor", std::to_string(seed), name}));
}

Stream Stream::of_noise(std::uint64_t seed, std::uint64_t step, std::string_view microbatch,
                        std::uint64_t call, std::string_view name) {
  return Stream(key_of({"noise", std::to_string(seed), std::to_string(step), microbatch,
                        std::to_string(call), name}));
}

Stream Stream::of_plan(std::uint64_t seed, std::string_view kind, std::uint64_t step,
                       std::uint64_t microbatch, std::uint64_t call, std::string_view name) {
  return Stream(key_of({"plan", std::to_string(seed), kind, std::to_string(step),
                        std::to_string(microbatch), std::to_string(call), name}));
}

Stream Stream::of_synthetic(std::uint64_t seed, std::string_view purpose, std::string_view what) {
  return Stream(key_of({purpose, std::to_string(seed), what}));
}

void Stream::words(std::uint64_t first, std::span<std::uint32_t> out) const {
  std::size_t done = 0;
  while (done < out.size()) {
    const Words four = block(key_, (first + done) / 4);
    for (std::size_t lane = (first + done) % 4; lane < 4 && done < out.size(); ++lane) {
      out[done++] = four[lane];
    }
  }
}

}  // namespace ttrace::synth
