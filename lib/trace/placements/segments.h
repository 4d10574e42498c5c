// A dimension that is several things one after the other (q, k and v; gate and up), each cut on its
// own.
#pragma once

#include "trace/placements/kind.h"

namespace ttrace::trace {

// The dimension is `segments`, the whole list `repeat` times.
struct Segments {
  static constexpr std::string_view kKeyword = "shard";
  static constexpr Sharing kSharing = Sharing::kShards;

  std::uint64_t dim = 0;
  std::vector<std::uint64_t> segments;
  std::uint64_t repeat = 1;
  // For each segment the parts of the coordinates; absent: the order of torch.chunk.
  std::optional<std::vector<std::vector<std::uint64_t>>> sizes;

  bool operator==(const Segments&) const = default;

  static bool is_spelled(const base::JsonCursor& value);
  static Segments parse(const base::JsonCursor& value);
  std::string json() const;

  std::string describe() const;
  std::string describe_numbers() const;
  std::string describe_over(const std::string& axis) const;

  std::optional<std::uint64_t> dimension() const { return dim; }
  bool gives_extents() const { return true; }
  std::optional<std::string> misfit(const PlacedTensor&) const { return std::nullopt; }
  void require_lists_for(std::uint64_t count) const;
  // Throws an input error if the segments do not add up to `extent`, or the given parts of a
  // segment not to the segment.
  tensor::Ranges part(std::uint64_t extent, std::uint64_t count, std::uint64_t index) const;
  void cut(std::uint64_t count, std::uint64_t index, std::vector<tensor::Ranges>& held) const {
    cut_one_dimension(*this, count, index, held);
  }
};

}  // namespace ttrace::trace
