// Random numbers that add up, and boxes that fill an array: what explicit placements are made of.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "property/random.h"
#include "tensor/box.h"

namespace ttrace::test {

template <typename List>
void shuffle(Random& random, List& values) {
  for (std::size_t i = values.size(); i-- > 1;) std::swap(values[i], values[random.between(0, i)]);
}

// `count` numbers that add up to `sum`, often uneven, some of them 0.
inline std::vector<std::uint64_t> random_parts(Random& random, std::uint64_t sum,
                                               std::size_t count) {
  std::vector<std::uint64_t> parts(count, 0);
  std::uint64_t left = sum;
  const std::uint64_t most = random.chance(0.5) ? sum : 2 * sum / count + 1;
  for (std::size_t i = 0; i + 1 < count; ++i) {
    left -= parts[i] = random.between(0, std::min(left, most));
  }
  parts.back() = left;
  shuffle(random, parts);
  return parts;
}

// `count` boxes that share `whole` out, some of them empty: cut in two again and again.
inline std::vector<tensor::Box> random_boxes(Random& random, const tensor::Box& whole,
                                             std::size_t count) {
  std::vector<tensor::Box> boxes{whole};
  while (boxes.size() < count) {
    tensor::Box& low = boxes[random.between(0, boxes.size() - 1)];
    const std::size_t d = random.between(0, whole.extent.size() - 1);
    tensor::Box high = low;
    low.extent[d] = random.between(0, high.extent[d]);
    high.origin[d] += low.extent[d];
    high.extent[d] -= low.extent[d];
    boxes.push_back(std::move(high));
  }
  shuffle(random, boxes);
  return boxes;
}

}  // namespace ttrace::test
