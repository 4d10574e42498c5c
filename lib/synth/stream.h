// Streams of 32-bit words, one for each purpose, seed and name; any word is made without the
// others. schemas/consistent-v1.md is the definition, ttrace_torch makes the same bits.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace ttrace::synth {

// FNV-1a with 64 bits of the bytes of `text` (Fowler, Noll, Vo; RFC 9923).
std::uint64_t fnv1a(std::string_view text);

class Stream {
 public:
  explicit Stream(std::uint64_t key) : key_(key) {}

  // The values of the tensor called `name`.
  static Stream of_tensor(std::uint64_t seed, std::string_view name);

  // The disturbance of the output `name` in a noise run. `microbatch`: its decimal number.
  static Stream of_noise(std::uint64_t seed, std::uint64_t step, std::string_view microbatch,
                         std::uint64_t call, std::string_view name);

  // What a plan overwrites with in a run: `kind` is "input" or "grad_output", `microbatch` the
  // global number, `name` that of the module's tensor.
  static Stream of_plan(std::uint64_t seed, std::string_view kind, std::uint64_t step,
                        std::uint64_t microbatch, std::uint64_t call, std::string_view name);

  // Synthetic traces: `purpose` is "synth", "synth_noise", ..., `what` a dataset's path
  // (schemas/synth-v1.md).
  static Stream of_synthetic(std::uint64_t seed, std::string_view purpose, std::string_view what);

  std::uint64_t key() const { return key_; }

  // Words first, first + 1, ..., one for each element of `out`; the last of them is at most
  // 2^64 - 1.
  void words(std::uint64_t first, std::span<std::uint32_t> out) const;

 private:
  std::uint64_t key_;
};

}  // namespace ttrace::synth
