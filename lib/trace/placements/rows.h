// A dimension whose rows a rank has in an order that the data decides (tokens sent to experts,
// packed sequences).
#pragma once

#include "trace/key.h"
#include "trace/placements/kind.h"

namespace ttrace::trace {

// Start of a range of rows that are padding: the rank has them, the tensor does not.
inline constexpr std::uint64_t kPadding = ~std::uint64_t{0};

// The rank's rows of dimension `dim` are those that its shard of the tensor `index` names: by their
// numbers, or with `labels` by numbers of any size, whose order is that of the rows.
struct Rows {
  static constexpr std::string_view kKeyword = "rows";
  static constexpr Sharing kSharing = Sharing::kShards;

  std::uint64_t dim = 0;
  std::string index;
  bool labels = false;

  bool operator==(const Rows&) const = default;

  static bool is_spelled(const base::JsonCursor& value);
  static Rows parse(const base::JsonCursor& value);
  std::string json() const;

  std::string describe() const;
  std::string describe_numbers() const { return ""; }
  std::string describe_over(const std::string& axis) const;

  std::optional<std::uint64_t> dimension() const { return dim; }
  bool gives_extents() const { return false; }
  std::optional<std::string> misfit(const PlacedTensor&) const { return std::nullopt; }
  void require_lists_for(std::uint64_t) const {}
  void cut(std::uint64_t, std::uint64_t, std::vector<tensor::Ranges>&) const {}
};

// Key of the index tensor `name` that says which rows of the tensor `key` a rank has.
TensorKey index_key(const TensorKey& key, const std::string& name);

// The rows of a dimension of `extent` that `numbers` names, in their order; negative ones are
// padding. Throws an input error for a number beyond the dimension.
tensor::Ranges rows_from_numbers(const std::vector<std::int64_t>& numbers, std::uint64_t extent);

}  // namespace ttrace::trace
