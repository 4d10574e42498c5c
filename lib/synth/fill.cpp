#include "synth/fill.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>

#include "base/error.h"
#include "synth/random.h"

namespace ttrace::synth {
namespace {

void check(const tensor::Shape& shape, const tensor::Box& box, std::size_t size) {
  bool within = box.origin.size() == shape.size() && box.extent.size() == shape.size();
  for (std::size_t d = 0; within && d < shape.size(); ++d) {
    within = box.origin[d] <= shape[d] && box.extent[d] <= shape[d] - box.origin[d];
  }
  if (!within) {
    throw base::input_error("the part ", tensor::to_string(box), " is no part of a tensor of ",
                            tensor::to_string(shape));
  }
  const std::optional<std::uint64_t> elements = tensor::element_count(shape);
  if (!elements) throw base::input_error(tensor::to_string(shape), " has too many elements");
  if ((*elements == 0 ? 0 : tensor::volume(box)) != size) {
    throw base::input_error("the part ", tensor::to_string(box), " does not have ", size,
                            " elements");
  }
}

// `make(word)` is the value of an element. Slabs are short enough for their words to stay in cache.
template <typename Value, typename Make>
void fill(const Stream& stream, const tensor::Shape& shape, const tensor::Box& box,
          std::span<Value> out, const Make& make) {
  check(shape, box, out.size());
  std::array<std::uint32_t, 4096> words{};
  std::size_t done = 0;
  // Whole rows of the last dimension follow one another in the tensor, other slabs may not.
  tensor::Box row = box;
  if (!row.extent.empty()) row.extent.back() = std::min<std::uint64_t>(row.extent.back(), 1);
  const std::uint64_t length = box.extent.empty() ? 1 : box.extent.back();
  tensor::for_each_slab(row, 1, [&](const tensor::Box& one) {
    const std::uint64_t first = tensor::position(shape, one.origin);
    for (std::uint64_t at = 0; at < length; at += words.size()) {
      const auto count =
          static_cast<std::size_t>(std::min<std::uint64_t>(words.size(), length - at));
      const std::span<std::uint32_t> some(words.data(), count);
      stream.words(first + at, some);
      for (const std::uint32_t word : some) out[done++] = make(word);
    }
  });
}

}  // namespace

void fill_normal(const Stream& stream, const tensor::Shape& shape, const tensor::Box& box,
                 double mean, double std_dev, std::span<float> out) {
  fill(stream, shape, box, out, [&](std::uint32_t word) { return normal(word, mean, std_dev); });
}

void fill_uniform(const Stream& stream, const tensor::Shape& shape, const tensor::Box& box,
                  std::span<float> out) {
  fill(stream, shape, box, out, uniform);
}

void fill_words(const Stream& stream, const tensor::Shape& shape, const tensor::Box& box,
                std::span<std::uint32_t> out) {
  fill(stream, shape, box, out, [](std::uint32_t word) { return word; });
}

}  // namespace ttrace::synth
