// Words to numbers, in integer arithmetic and exactly rounded steps: the same bits on every
// machine, as no logarithm or cosine of a math library would give.
#pragma once

#include <cstdint>

namespace ttrace::synth {

// k · 2^-23 - 1 for the upper 24 bits k of `word`: in [-1, 1), exact.
float uniform(std::uint32_t word);

// A normal number in units of 2^-28 standard deviations, at most 6.34 of them from 0. Between the
// entries of a table of quantiles, 8 for each octave of tail probability, it lies evenly.
std::int32_t normal_units(std::uint32_t word);

// mean + std_dev · n, formed in binary64 and rounded to binary32.
float normal(std::uint32_t word, double mean, double std_dev);

}  // namespace ttrace::synth
