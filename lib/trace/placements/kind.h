// What every placement kind provides. A new kind is a pair of files in this folder and one line in
// the table of trace/placement.h; the compiler names whatever it lacks.
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tensor/box.h"
#include "tensor/dtype.h"

namespace ttrace::base {
class JsonCursor;
}

namespace ttrace::trace {

// How the data of the ranks along an axis relate.
enum class Sharing {
  kReplicas,  // all have the same values
  kTerms,     // each has a term; the value is their reduction
  kShards,    // each has other elements
  kOneRank,   // one coordinate has them, the others have nothing
};

// The tensor and the axis that a placement is given for.
struct PlacedTensor {
  const tensor::Shape& shape;
  tensor::DType dtype;
  std::uint64_t axis_size = 1;
  bool has_held_at = false;  // for this axis
};

// `count` is the number of coordinates that hold the tensor, `index` one of them.
template <typename Kind>
concept PlacementKind =
    std::equality_comparable<Kind> && std::default_initializable<Kind> &&
    requires(const Kind& kind, const base::JsonCursor& value, const std::string& axis,
             const PlacedTensor& tensor, std::uint64_t count, std::uint64_t index,
             std::vector<tensor::Ranges>& held) {
      // The JSON member that it is recognized by.
      { Kind::kKeyword } -> std::convertible_to<std::string_view>;
      { Kind::kSharing } -> std::convertible_to<Sharing>;

      // Whether `value` spells this kind, and its parsing, which throws an input error for members
      // that do not belong together. The first kind of the table that is spelled is parsed.
      { Kind::is_spelled(value) } -> std::same_as<bool>;
      { Kind::parse(value) } -> std::same_as<Kind>;
      // Compact JSON text that parse() reads.
      { kind.json() } -> std::same_as<std::string>;

      // For people: "shard 0 (zigzag)".
      { kind.describe() } -> std::same_as<std::string>;
      // The numbers that describe() leaves out, after a space: with them, the texts of different
      // placements differ.
      { kind.describe_numbers() } -> std::same_as<std::string>;
      // As a part of a sentence: "dimension 0 cut over tp in zigzag order".
      { kind.describe_over(axis) } -> std::same_as<std::string>;

      // The dimension it cuts; nothing for those that cut none or several.
      { kind.dimension() } -> std::same_as<std::optional<std::uint64_t>>;
      // Whether it names numbers of elements, which may contradict what earlier axes left.
      { kind.gives_extents() } -> std::same_as<bool>;
      // Why the tensor cannot be placed like this, or nothing. dimension() is checked by the
      // caller.
      { kind.misfit(tensor) } -> std::same_as<std::optional<std::string>>;
      // Throws an input error if it lists numbers for more or fewer than `count` coordinates.
      { kind.require_lists_for(count) } -> std::same_as<void>;
      // Reduces `held`, the indices of every dimension, to those of coordinate `index`. Changes
      // nothing where nothing is cut, where the flattened array is cut (Flat), or where data
      // decides (Rows).
      // Throws an input error if the placement contradicts the number of elements.
      { kind.cut(count, index, held) } -> std::same_as<void>;
    };

// Whether `value` is an object with the member `key`.
bool has_member(const base::JsonCursor& value, std::string_view key);

// "[1,2]", JSON.
std::string json_list(std::span<const std::uint64_t> numbers);

// "[1, 2]", for people; of a long list the first sixteen: "[0, 1, ... 40 in all]".
template <typename List, typename ToText>
std::string describe_list(const List& items, ToText to_text) {
  constexpr std::size_t kMostNamed = 16;
  std::string text = "[";
  for (std::size_t i = 0; i < items.size() && i < kMostNamed; ++i) {
    if (i > 0) text += ", ";
    text += to_text(items[i]);
  }
  if (items.size() > kMostNamed) text += ", ... " + std::to_string(items.size()) + " in all";
  return text + "]";
}
std::string describe_list(std::span<const std::uint64_t> numbers);

// Throws an input error unless `listed` numbers, called `what`, are one for each of `count`
// coordinates.
void require_one_each(std::size_t listed, const char* what, std::uint64_t count);

// cut() of a kind that cuts one dimension and has a part(extent, count, index).
template <typename Kind>
void cut_one_dimension(const Kind& kind, std::uint64_t count, std::uint64_t index,
                       std::vector<tensor::Ranges>& held) {
  tensor::Ranges& there = held.at(kind.dim);
  there = select(there, kind.part(total(there), count, index));
}

}  // namespace ttrace::trace
