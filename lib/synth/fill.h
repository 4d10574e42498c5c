// Parts of generated tensors: an element's value depends on its row-major position in the whole
// tensor alone, so every rank makes its own part and all layouts agree.
#pragma once

#include <cstdint>
#include <span>

#include "synth/random.h"
#include "tensor/box.h"

namespace ttrace::synth {

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
