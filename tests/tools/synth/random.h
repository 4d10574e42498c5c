// Random numbers that are the same on every machine: the counter-based generator, streams of its
// 32-bit words by purpose and name, numbers from words, and boxes of tensors filled with them.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "tensor/box.h"

namespace ttrace::synth {

using Counter = std::array<std::uint32_t, 4>;
using RandomWords = std::array<std::uint32_t, 4>;

// Philox 4×32-10 by Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3"
// (SC 2011). A pure function with the same bits as Random123. Word 0 of the key is the lower half
// of `key`.
RandomWords philox4x32(Counter counter, std::uint64_t key);

// A stream of 32-bit words, one for each purpose, seed and name. Any word can be computed without
// the others. schemas/consistent-v1.md defines the streams; ttrace_torch computes the same bits.
class Stream {
 public:
  explicit Stream(std::uint64_t key) : key_(key) {}

  // For synthetic traces: `purpose` is "synth", "synth_noise", ..., `what` the path of a dataset.
  static Stream of_synthetic(std::uint64_t seed, std::string_view purpose, std::string_view what);

  // Writes the words first, first + 1, ... to `out`. The index of the last must be at most 2^64
  // - 1.
  void words(std::uint64_t first, std::span<std::uint32_t> out) const;

 private:
  std::uint64_t key_;
};

// Quantiles of the normal distribution at 8 tail probabilities in every octave. Entry 8·e + s is
// the integer nearest to 2^28 · q, where q is exceeded with probability 2^(e-33) · (1 + s/8); e
// from 0 to 31, s from 0 to 7. The last entry belongs to probability 1/2.
extern const std::array<std::int32_t, 257> kQuantiles;

// The functions below use integer arithmetic and exactly rounded operations only, so they give the
// same bits on every machine; the logarithm or cosine of a math library would not.

// k · 2^-23 - 1 for the upper 24 bits k of `word`: in [-1, 1), exact.
float uniform(std::uint32_t word);

// A normal number in units of 2^-28 standard deviations, at most 6.34 standard deviations from 0.
// Interpolates linearly between the entries of kQuantiles.
std::int32_t normal_units(std::uint32_t word);

// mean + std_dev · n, computed in binary64 and rounded to binary32.
float normal(std::uint32_t word, double mean, double std_dev);

// Fills `out` with the words of the stream for `box` in a tensor of `shape`, in row-major order.
// The word of an element depends only on its row-major index in the whole tensor, so every rank can
// compute its shard and all layouts agree. The box lies within the shape, and `out` has its size.
void fill_random_words(const Stream& stream, const tensor::Shape& shape, const tensor::Box& box,
                       std::span<std::uint32_t> out);

}  // namespace ttrace::synth
