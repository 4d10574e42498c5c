// How a tensor lies along one mesh axis: the vocabulary of schemas/trace-v1.md as values. What each
// one means in boxes is layout's business.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace ttrace::trace {

struct Replicate {
  bool operator==(const Replicate&) const = default;
};

struct Shard {
  std::uint64_t dim = 0;
  std::optional<std::vector<std::uint64_t>> sizes;  // absent: the order of torch.chunk

  bool operator==(const Shard&) const = default;
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

using Placement = std::variant<Replicate, Shard, Partial, Only>;

std::string_view reduction_name(Reduction reduction);

// "replicate", "shard 0", "partial sum", "only 1": for people.
std::string to_string(const Placement& placement);

}  // namespace ttrace::trace
