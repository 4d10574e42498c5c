// Random numbers that are the same on every machine: a counter-based generator, streams of its
// words by purpose and name, their conversion to numbers, and boxes of tensors filled with them.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "tensor/box.h"

namespace ttrace::synth {

using Counter = std::array<std::uint32_t, 4>;
using Words = std::array<std::uint32_t, 4>;

// Word 0 of the key is the lower half of `key`.
Words philox4x32(Counter counter, std::uint64_t key);

// Streams of 32-bit words, one for each purpose, seed and name; any word is made without the
// others. schemas/consistent-v1.md is the definition, ttrace_torch makes the same bits.

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

// Quantiles of the normal distribution at 8 tail probabilities in every octave.

// Entry 8·e + s is the integer nearest to 2^28 · q, where q is exceeded with probability
// 2^(e-33) · (1 + s/8); e from 0 to 31, s from 0 to 7. The last entry is that of probability 1/2.
extern const std::array<std::int32_t, 257> kQuantiles;

// Words to numbers, in integer arithmetic and exactly rounded steps: the same bits on every
// machine, as no logarithm or cosine of a math library would give.

// k · 2^-23 - 1 for the upper 24 bits k of `word`: in [-1, 1), exact.
float uniform(std::uint32_t word);

// A normal number in units of 2^-28 standard deviations, at most 6.34 of them from 0. Between the
// entries of a table of quantiles, 8 for each octave of tail probability, it lies evenly.
std::int32_t normal_units(std::uint32_t word);

// mean + std_dev · n, formed in binary64 and rounded to binary32.
float normal(std::uint32_t word, double mean, double std_dev);

// The part `box` of a tensor of `shape`, row-major into `out`, which has the box's element count.
// Normal numbers with this mean and standard deviation. Throws an input error if the box does not
// lie within the shape, the shape has more than 2^64 - 1 elements, or `out` has another size.
void fill_normal(const Stream& stream, const tensor::Shape& shape, const tensor::Box& box,
                 double mean, double std_dev, std::span<float> out);

// The same with uniform numbers in [-1, 1).
void fill_uniform(const Stream& stream, const tensor::Shape& shape, const tensor::Box& box,
                  std::span<float> out);

// The same with the words themselves.
void fill_words(const Stream& stream, const tensor::Shape& shape, const tensor::Box& box,
                std::span<std::uint32_t> out);

}  // namespace ttrace::synth
