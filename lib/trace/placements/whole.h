// Placements that cut nothing: a coordinate has the whole of what the other axes leave, or nothing.
#pragma once

#include "trace/placements/kind.h"

namespace ttrace::trace {

// Every coordinate has it.
struct Replicate {
  static constexpr std::string_view kKeyword = "replicate";
  static constexpr Sharing kSharing = Sharing::kReplicas;

  bool operator==(const Replicate&) const = default;

  static bool is_spelled(const base::JsonCursor& value);
  static Replicate parse(const base::JsonCursor& value);
  std::string json() const;

  std::string describe() const;
  std::string describe_numbers() const { return ""; }
  std::string describe_over(const std::string& axis) const;

  std::optional<std::uint64_t> dimension() const { return std::nullopt; }
  bool gives_extents() const { return false; }
  std::optional<std::string> misfit(const PlacedTensor&) const { return std::nullopt; }
  void require_lists_for(std::uint64_t) const {}
  void cut(std::uint64_t, std::uint64_t, std::vector<tensor::Ranges>&) const {}
};

enum class Reduction { kSum, kMean, kMax };

std::string_view reduction_name(Reduction reduction);

// The value is the reduction of what the coordinates have.
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

// One coordinate has it.
struct Only {
  static constexpr std::string_view kKeyword = "only";
  static constexpr Sharing kSharing = Sharing::kOneRank;

  std::uint64_t coordinate = 0;

  bool operator==(const Only&) const = default;

  static bool is_spelled(const base::JsonCursor& value);
  static Only parse(const base::JsonCursor& value);
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
