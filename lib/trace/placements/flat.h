// Ranges of what the other axes leave, flattened in row-major order: the shards of distributed
// optimizers.
#pragma once

#include "trace/placements/kind.h"

namespace ttrace::trace {

// Coordinate i has [start, stop).
struct Flat {
  static constexpr std::string_view kKeyword = "flat";
  static constexpr Sharing kSharing = Sharing::kShards;

  struct Interval {
    std::uint64_t start = 0;
    std::uint64_t stop = 0;

    bool operator==(const Interval&) const = default;
  };
  std::vector<Interval> ranges;

  bool operator==(const Flat&) const = default;

  static bool is_spelled(const base::JsonCursor& value);
  static Flat parse(const base::JsonCursor& value);
  std::string json() const;

  std::string describe() const;
  std::string describe_numbers() const;
  std::string describe_over(const std::string& axis) const;

  std::optional<std::uint64_t> dimension() const { return std::nullopt; }
  bool gives_extents() const { return true; }
  std::optional<std::string> misfit(const PlacedTensor&) const { return std::nullopt; }
  void require_lists_for(std::uint64_t count) const;
  void cut(std::uint64_t, std::uint64_t, std::vector<tensor::Ranges>&) const {}
};

// Elements [start, stop) of an array of `shape` in row-major order: at most 2·dimensions - 1 boxes,
// in that order, none empty. stop must not exceed the number of elements, which must fit 64 bits.
std::vector<tensor::Box> flat_boxes(const tensor::Shape& shape, std::uint64_t start,
                                    std::uint64_t stop);

}  // namespace ttrace::trace
