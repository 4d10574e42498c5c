// Explicit boxes of what the earlier axes leave.
#pragma once

#include "trace/placements/kind.h"

namespace ttrace::trace {

// Coordinate i has boxes[i].
struct Boxes {
  static constexpr std::string_view kKeyword = "boxes";
  static constexpr Sharing kSharing = Sharing::kShards;

  std::vector<tensor::Box> boxes;

  bool operator==(const Boxes&) const = default;

  static bool is_spelled(const base::JsonCursor& value);
  static Boxes parse(const base::JsonCursor& value);
  std::string json() const;

  std::string describe() const;
  std::string describe_numbers() const;
  std::string describe_over(const std::string& axis) const;

  std::optional<std::uint64_t> dimension() const { return std::nullopt; }
  bool gives_extents() const { return true; }
  std::optional<std::string> misfit(const PlacedTensor& tensor) const;
  void require_lists_for(std::uint64_t count) const;
  void cut(std::uint64_t count, std::uint64_t index, std::vector<tensor::Ranges>& held) const;
};

}  // namespace ttrace::trace
