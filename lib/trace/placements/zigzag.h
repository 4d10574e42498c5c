// Context parallelism's order of chunks, by which causal attention is equal work for all ranks:
// coordinate i has chunks i and 2n-1-i of 2n.
#pragma once

#include "trace/placements/kind.h"

namespace ttrace::trace {

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

}  // namespace ttrace::trace
