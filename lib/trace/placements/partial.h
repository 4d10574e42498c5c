// The value is the reduction of what the coordinates have.
#pragma once

#include "trace/placements/kind.h"

namespace ttrace::trace {

enum class Reduction { kSum, kMean, kMax };

std::string_view reduction_name(Reduction reduction);

struct Partial {
  static constexpr std::string_view kKeyword = "partial";
  static constexpr Sharing kSharing = Sharing::kTerms;

  Reduction reduction = Reduction::kSum;

  bool operator==(const Partial&) const = default;

  static bool is_spelled(const base::JsonCursor& value);
  static Partial parse(const base::JsonCursor& value);
  std::string json() const;

  std::string describe() const;
  std::string describe_numbers() const { return ""; }
  std::string describe_over(const std::string& axis) const;

  std::optional<std::uint64_t> dimension() const { return std::nullopt; }
  bool gives_extents() const { return false; }
  std::optional<std::string> misfit(const PlacedTensor& tensor) const;
  void require_lists_for(std::uint64_t) const {}
  void cut(std::uint64_t, std::uint64_t, std::vector<tensor::Ranges>&) const {}
};

}  // namespace ttrace::trace
