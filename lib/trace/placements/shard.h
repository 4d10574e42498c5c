// One dimension cut into equal or given parts: one after the other, in zigzag order, or strided.
#pragma once

#include "trace/placements/kind.h"

namespace ttrace::trace {

// Part `index` of `count` in torch.chunk's order: parts of ⌈extent / count⌉, the last ones smaller
// or empty.
tensor::Range chunk(std::uint64_t extent, std::uint64_t count, std::uint64_t index);

// Part `index` of a dimension of `extent` elements cut into parts of the given sizes. Throws an
// input error if they do not add up to `extent`.
tensor::Range given_part(const std::vector<std::uint64_t>& sizes, std::uint64_t extent,
                         std::uint64_t index);

// Parts one after the other.
struct Shard {
  static constexpr std::string_view kKeyword = "shard";
  static constexpr Sharing kSharing = Sharing::kShards;

  std::uint64_t dim = 0;
  std::optional<std::vector<std::uint64_t>> sizes;  // absent: the order of torch.chunk

  bool operator==(const Shard&) const = default;

  static bool is_spelled(const base::JsonCursor& value);
  static Shard parse(const base::JsonCursor& value);
  std::string json() const;

  std::string describe() const;
  std::string describe_numbers() const;
  std::string describe_over(const std::string& axis) const;

  std::optional<std::uint64_t> dimension() const { return dim; }
  bool gives_extents() const { return sizes.has_value(); }
  std::optional<std::string> misfit(const PlacedTensor&) const { return std::nullopt; }
  void require_lists_for(std::uint64_t count) const;
  // What coordinate `index` of `count` has of `extent` elements. Throws an input error if the sizes
  // do not add up to them.
  tensor::Ranges part(std::uint64_t extent, std::uint64_t count, std::uint64_t index) const;
  void cut(std::uint64_t count, std::uint64_t index, std::vector<tensor::Ranges>& held) const {
    cut_one_dimension(*this, count, index, held);
  }
};

// Context parallelism's order of chunks, by which causal attention is equal work for all ranks:
// coordinate i has chunks i and 2n-1-i of 2n.
struct Zigzag {
  static constexpr std::string_view kKeyword = "shard";
  static constexpr Sharing kSharing = Sharing::kShards;

  std::uint64_t dim = 0;

  bool operator==(const Zigzag&) const = default;

  static bool is_spelled(const base::JsonCursor& value);
  static Zigzag parse(const base::JsonCursor& value);
  std::string json() const;

  std::string describe() const;
  std::string describe_numbers() const { return ""; }
  std::string describe_over(const std::string& axis) const;

  std::optional<std::uint64_t> dimension() const { return dim; }
  bool gives_extents() const { return false; }
  std::optional<std::string> misfit(const PlacedTensor&) const { return std::nullopt; }
  void require_lists_for(std::uint64_t) const {}
  // Chunks `index` and 2·count-1-index of the 2·count chunks (torch.chunk) of `extent` elements.
  tensor::Ranges part(std::uint64_t extent, std::uint64_t count, std::uint64_t index) const;
  void cut(std::uint64_t count, std::uint64_t index, std::vector<tensor::Ranges>& held) const {
    cut_one_dimension(*this, count, index, held);
  }
};

// DTensor's _StridedShard: what a rank has when a later mesh axis cut the dimension first (FSDP2
// over tensor parallelism): `stride` chunks, each cut over the coordinates on its own.
struct Strided {
  static constexpr std::string_view kKeyword = "shard";
  static constexpr Sharing kSharing = Sharing::kShards;

  std::uint64_t dim = 0;
  std::uint64_t stride = 1;

  bool operator==(const Strided&) const = default;

  static bool is_spelled(const base::JsonCursor& value);
  static Strided parse(const base::JsonCursor& value);
  std::string json() const;

  std::string describe() const;
  std::string describe_numbers() const { return ""; }
  std::string describe_over(const std::string& axis) const;

  std::optional<std::uint64_t> dimension() const { return dim; }
  bool gives_extents() const { return false; }
  std::optional<std::string> misfit(const PlacedTensor&) const { return std::nullopt; }
  void require_lists_for(std::uint64_t) const {}
  // Part `index` of `count` of each of the `stride` chunks of `extent` elements, one after the
  // other; both cuts are torch.chunk's
  // (torch.distributed.tensor.placement_types._StridedShard._split_tensor).
  // Throws an input error if there are more than kMostRanges chunks.
  tensor::Ranges part(std::uint64_t extent, std::uint64_t count, std::uint64_t index) const;
  void cut(std::uint64_t count, std::uint64_t index, std::vector<tensor::Ranges>& held) const {
    cut_one_dimension(*this, count, index, held);
  }
};

}  // namespace ttrace::trace
