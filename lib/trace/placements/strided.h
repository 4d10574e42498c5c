// DTensor's _StridedShard: what a rank has when a later mesh axis cut the dimension first (FSDP2
// over tensor parallelism).
#pragma once

#include "trace/placements/kind.h"

namespace ttrace::trace {

// `stride` chunks, each cut over the coordinates on its own.
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
