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

std::string describe_microbatches(const std::optional<trace::Microbatches>& whole) {
  using How = trace::Microbatches::How;
  if (!whole) return "none";
  const std::string of = trace::describe_list(whole->numbers);
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
      const auto describe = [](const Numbers* list) {
        return list == nullptr ? "not given" : trace::describe_list(*list);
      };
      return EntryDifference{concat("held_at/", axis), describe(held), describe(other_held)};
    }
    const trace::Placement* placement = find(first.placements, axis);
    const trace::Placement* other = find(second.placements, axis);
    if (placement == nullptr) placement = &replicate;
    if (other == nullptr) other = &replicate;
    if (*placement != *other) {
      return EntryDifference{concat("placements/", axis), trace::describe_exactly(*placement),
                             trace::describe_exactly(*other)};
    }
  }
  return std::nullopt;
}

}  // namespace

std::string describe_ranks(const std::vector<std::uint64_t>& ranks) {
  if (ranks.size() == 1) return concat("rank ", ranks[0]);
  std::string text = "ranks {";
  for (std::size_t i = 0; i < ranks.size() && i < kMostRanksNamed; ++i) {
    text += concat(i > 0 ? ", " : "", ranks[i]);
  }
  if (ranks.size() > kMostRanksNamed) text += concat(", ... ", ranks.size(), " in all");
  return text + "}";
}

std::string describe_mesh(const trace::Mesh& mesh) {
  std::string text;
  for (const trace::MeshAxis& axis : mesh.axes) {
    text += concat(text.empty() ? "" : " × ", axis.name, " ", axis.size);
  }
  if (text.empty()) text = "one rank";
  return mesh.ranks.empty() ? text : concat(text, " over ranks ", trace::describe_list(mesh.ranks));
}

std::string exact_number(double value) {
  std::array<char, 32> buffer{};
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value).ptr;
  return {buffer.data(), end};
}

std::string describe_meshes(const std::map<std::string, trace::Mesh>& meshes) {
  std::string text;
  for (const auto& [name, mesh] : meshes) {
    text += concat(text.empty() ? "" : "; ", name.empty() ? "" : concat(name, ": "),
                   describe_mesh(mesh));
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
    return EntryDifference{"microbatches", describe_microbatches(first.microbatches),
                           describe_microbatches(second.microbatches)};
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
