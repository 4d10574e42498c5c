// How a tensor lies along one mesh axis: the vocabulary of schemas/trace-v2.md as values. What each
// one means in elements is layout's business.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "tensor/box.h"

namespace ttrace::trace {

struct Replicate {
  bool operator==(const Replicate&) const = default;
};

struct Shard {
  std::uint64_t dim = 0;
  std::optional<std::vector<std::uint64_t>> sizes;  // absent: the order of torch.chunk

  bool operator==(const Shard&) const = default;
};

// 2·n chunks for n coordinates; coordinate i holds chunks i and 2n-1-i.
struct Zigzag {
  std::uint64_t dim = 0;

  bool operator==(const Zigzag&) const = default;
};

// The dimension is `segments`, one after the other, the whole list `repeat` times; every segment is
// cut on its own.
struct Segments {
  std::uint64_t dim = 0;
  std::vector<std::uint64_t> segments;
  std::uint64_t repeat = 1;
  // For each segment the parts of the coordinates; absent: the order of torch.chunk.
  std::optional<std::vector<std::vector<std::uint64_t>>> sizes;

  bool operator==(const Segments&) const = default;
};

// DTensor's _StridedShard: `stride` chunks, each cut over the coordinates on its own.
struct Strided {
  std::uint64_t dim = 0;
  std::uint64_t stride = 1;

  bool operator==(const Strided&) const = default;
};

// Coordinate i holds [start, stop) of what the other axes left, flattened in row-major order.
struct Flat {
  struct Interval {
    std::uint64_t start = 0;
    std::uint64_t stop = 0;

    bool operator==(const Interval&) const = default;
  };
  std::vector<Interval> ranges;

  bool operator==(const Flat&) const = default;
};

// Coordinate i holds boxes[i] of what the earlier axes left.
struct Boxes {
  std::vector<tensor::Box> boxes;

  bool operator==(const Boxes&) const = default;
};

// The rank's rows of dimension `dim` are those that its part of the tensor `index` names.
struct Rows {
  std::uint64_t dim = 0;
  std::string index;

  bool operator==(const Rows&) const = default;
};

enum class Reduction { kSum, kMean, kMax };

struct Partial {
  Reduction reduction = Reduction::kSum;

  bool operator==(const Partial&) const = default;
};

struct Only {
  std::uint64_t coordinate = 0;

  bool operator==(const Only&) const = default;
};

using Placement =
    std::variant<Replicate, Shard, Zigzag, Segments, Strided, Flat, Boxes, Rows, Partial, Only>;

std::string_view reduction_name(Reduction reduction);

// "replicate", "shard 0", "partial sum", "only 1": for people.
std::string to_string(const Placement& placement);

// The dimension the placement cuts; nothing for those that cut none or several.
std::optional<std::uint64_t> cut_dimension(const Placement& placement);

}  // namespace ttrace::trace
