#include "layout/describe_merge.h"

#include <array>
#include <charconv>
#include <set>
#include <string_view>

#include "base/text.h"

namespace ttrace::layout {
namespace {

using base::concat;
using Numbers = std::vector<std::uint64_t>;

constexpr std::size_t kMostRanksNamed = 8;
constexpr std::size_t kMostItemsNamed = 16;

template <typename Item, typename ToText>
std::string list_text(const std::vector<Item>& items, ToText to_text) {
  std::string text = "[";
  for (std::size_t i = 0; i < items.size() && i < kMostItemsNamed; ++i) {
    text += concat(i > 0 ? ", " : "", to_text(items[i]));
  }
  if (items.size() > kMostItemsNamed) text += concat(", ... ", items.size(), " in all");
  return text + "]";
}

std::string numbers_text(const Numbers& numbers) {
  return list_text(numbers, [](std::uint64_t number) { return number; });
}

// What trace::to_string leaves out: without it, two cuts into other sizes would read the same.
struct Details {
  std::string operator()(const trace::Shard& shard) const {
    return shard.sizes ? concat(" sizes ", numbers_text(*shard.sizes)) : "";
  }
  std::string operator()(const trace::Segments& segments) const {
    std::string text =
        concat(" ", numbers_text(segments.segments), " repeated ", segments.repeat, " times");
    if (segments.sizes) text += concat(" sizes ", list_text(*segments.sizes, numbers_text));
    return text;
  }
  std::string operator()(const trace::Flat& flat) const {
    return " " + list_text(flat.ranges, [](const trace::Flat::Interval& range) {
             return concat("[", range.start, ", ", range.stop, "]");
           });
  }
  std::string operator()(const trace::Boxes& boxes) const {
    return " " + list_text(boxes.boxes, [](const tensor::Box& box) {
             return concat("[", numbers_text(box.origin), ", ", numbers_text(box.extent), "]");
           });
  }
  template <typename Other>
  std::string operator()(const Other&) const {
    return "";
  }
};

std::string placement_words(const trace::Placement& placement) {
  return trace::to_string(placement) + std::visit(Details{}, placement);
}

std::string microbatches_words(const std::optional<trace::Microbatches>& whole) {
  using How = trace::Microbatches::How;
  if (!whole) return "none";
  const std::string of = numbers_text(whole->numbers);
  if (whole->how == How::kShard) return concat("shard ", whole->dim, " of ", of);
  return concat(whole->how == How::kSum ? "sum " : "mean ", of);
}

template <typename Value>
const Value* find(const std::map<std::string, Value>& values, const std::string& key) {
  const auto found = values.find(key);
  return found == values.end() ? nullptr : &found->second;
}

// The first axis, by name, of which the entries do not say the same.
std::optional<EntryDifference> layout_difference(const trace::TensorEntry& first,
                                                 const trace::TensorEntry& second) {
  static const trace::Placement replicate = trace::Replicate{};
  std::set<std::string_view> axes;
  for (const trace::TensorEntry* entry : {&first, &second}) {
    for (const auto& [axis, placement] : entry->placements) axes.insert(axis);
    for (const auto& [axis, held] : entry->held_at) axes.insert(axis);
  }
  for (const std::string_view name : axes) {
    const std::string axis(name);
    const Numbers* held = find(first.held_at, axis);
    const Numbers* other_held = find(second.held_at, axis);
    if ((held == nullptr) != (other_held == nullptr) || (held != nullptr && *held != *other_held)) {
      const auto words = [](const Numbers* list) {
        return list == nullptr ? "not given" : numbers_text(*list);
      };
      return EntryDifference{concat("held_at/", axis), words(held), words(other_held)};
    }
    const trace::Placement* placement = find(first.placements, axis);
    const trace::Placement* other = find(second.placements, axis);
    if (placement == nullptr) placement = &replicate;
    if (other == nullptr) other = &replicate;
    if (*placement != *other) {
      return EntryDifference{concat("placements/", axis), placement_words(*placement),
                             placement_words(*other)};
    }
  }
  return std::nullopt;
}

}  // namespace

std::string rank_words(const std::vector<std::uint64_t>& ranks) {
  if (ranks.size() == 1) return concat("rank ", ranks[0]);
  std::string text = "ranks {";
  for (std::size_t i = 0; i < ranks.size() && i < kMostRanksNamed; ++i) {
    text += concat(i > 0 ? ", " : "", ranks[i]);
  }
  if (ranks.size() > kMostRanksNamed) text += concat(", ... ", ranks.size(), " in all");
  return text + "}";
}

std::string mesh_words(const trace::Mesh& mesh) {
  std::string text;
  for (const trace::MeshAxis& axis : mesh.axes) {
    text += concat(text.empty() ? "" : " × ", axis.name, " ", axis.size);
  }
  if (text.empty()) text = "one rank";
  return mesh.ranks.empty() ? text : concat(text, " over ranks ", numbers_text(mesh.ranks));
}

std::string exact_number(double value) {
  std::array<char, 32> buffer{};
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value).ptr;
  return {buffer.data(), end};
}

std::string meshes_words(const std::map<std::string, trace::Mesh>& meshes) {
  std::string text;
  for (const auto& [name, mesh] : meshes) {
    text +=
        concat(text.empty() ? "" : "; ", name.empty() ? "" : concat(name, ": "), mesh_words(mesh));
  }
  return text;
}

std::optional<EntryDifference> entry_difference(const trace::TensorEntry& first,
                                                const trace::TensorEntry& second) {
  if (first.dtype != second.dtype) {
    return EntryDifference{"dtype", std::string(tensor::dtype_name(first.dtype)),
                           std::string(tensor::dtype_name(second.dtype))};
  }
  if (first.shape != second.shape) {
    return EntryDifference{"shape", tensor::to_string(first.shape),
                           tensor::to_string(second.shape)};
  }
  if (first.microbatches != second.microbatches) {
    return EntryDifference{"microbatches", microbatches_words(first.microbatches),
                           microbatches_words(second.microbatches)};
  }
  if (first.mesh != second.mesh) {
    return EntryDifference{"mesh", concat("\"", first.mesh, "\""), concat("\"", second.mesh, "\"")};
  }
  if (first.scale != second.scale) {
    return EntryDifference{"scale", exact_number(first.scale), exact_number(second.scale)};
  }
  return layout_difference(first, second);
}

}  // namespace ttrace::layout
