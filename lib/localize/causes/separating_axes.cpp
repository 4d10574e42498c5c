#include "localize/causes/separating_axes.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/display_limits.h"
#include "base/message.h"
#include "base/text.h"
#include "layout/mesh.h"

namespace ttrace::localize {
namespace {

using Coordinates = std::vector<std::uint64_t>;

std::map<std::uint64_t, Coordinates> coordinates_by_rank(const trace::Mesh& mesh) {
  std::map<std::uint64_t, Coordinates> found;
  for (std::uint64_t i = 0; i < layout::mesh_size(mesh); ++i) {
    found.emplace(layout::rank_at(mesh, i), layout::coordinates_at(mesh, i));
  }
  return found;
}

const trace::Mesh& mesh_of(const measure::TensorRef& candidate,
                           const measure::ReplicaDifference& replicas) {
  return candidate.source->manifest().meshes.at(part_that_differs(candidate, replicas).mesh);
}

std::string joined(const std::vector<std::string>& parts) {
  std::string text;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (i > 0) text += i + 1 == parts.size() ? " and " : ", ";
    text += parts[i];
  }
  return text;
}

// The coordinates of every class along `axis`, if no coordinate occurs in two classes.
std::vector<std::set<std::uint64_t>> classes_along(
    const std::map<std::uint64_t, Coordinates>& coordinates, std::size_t axis,
    const std::vector<std::vector<std::uint64_t>>& classes) {
  std::vector<std::set<std::uint64_t>> along;
  std::set<std::uint64_t> taken;
  for (const auto& ranks : classes) {
    std::set<std::uint64_t> here;
    for (const std::uint64_t rank : ranks) here.insert(coordinates.at(rank)[axis]);
    for (const std::uint64_t coordinate : here) {
      if (!taken.insert(coordinate).second) return {};
    }
    along.push_back(std::move(here));
  }
  return along;
}

}  // namespace

const trace::TensorEntry& part_that_differs(const measure::TensorRef& candidate,
                                            const measure::ReplicaDifference& replicas) {
  const trace::TensorEntry* part = measure::stored_at(*candidate.view, replicas.path);
  return part != nullptr ? *part : *layout::stored_in(*candidate.view).front();
}

std::vector<std::string> separating_axes(const measure::TensorRef& candidate,
                                         const measure::ReplicaDifference& replicas) {
  const trace::Mesh& mesh = mesh_of(candidate, replicas);
  const auto coordinates = coordinates_by_rank(mesh);
  std::map<Coordinates, std::size_t> class_at;
  for (std::size_t c = 0; c < replicas.classes.size(); ++c) {
    for (const std::uint64_t rank : replicas.classes[c]) class_at[coordinates.at(rank)] = c;
  }
  std::vector<std::string> axes;
  for (std::size_t a = 0; a < mesh.axes.size(); ++a) {
    // Ranks that differ along this axis alone share the key with that coordinate taken out.
    std::map<Coordinates, std::set<std::size_t>> lines;
    for (const auto& [at, in_class] : class_at) {
      Coordinates line = at;
      line[a] = 0;
      lines[line].insert(in_class);
    }
    const bool separates = std::any_of(lines.begin(), lines.end(),
                                       [](const auto& line) { return line.second.size() > 1; });
    if (separates) axes.push_back(mesh.axes[a].name);
  }
  return axes;
}

std::string describe_classes(const measure::TensorRef& candidate,
                             const measure::ReplicaDifference& replicas) {
  const trace::Mesh& mesh = mesh_of(candidate, replicas);
  const auto coordinates = coordinates_by_rank(mesh);
  if (replicas.classes.size() > base::kShown.names) {
    return base::render(
        {"{groups} groups of ranks", {{"groups", std::uint64_t{replicas.classes.size()}}}});
  }
  const std::vector<std::string> axes = separating_axes(candidate, replicas);
  for (std::size_t a = 0; a < mesh.axes.size() && axes.size() == 1; ++a) {
    if (mesh.axes[a].name != axes[0]) continue;
    std::vector<std::string> words;
    for (const auto& here : classes_along(coordinates, a, replicas.classes)) {
      std::vector<std::string> numbers;
      for (const std::uint64_t coordinate : here) numbers.push_back(std::to_string(coordinate));
      words.push_back(base::concat(axes[0], " ", joined(numbers)));
    }
    if (!words.empty()) return joined(words);
  }
  std::vector<std::string> words;
  for (const auto& ranks : replicas.classes) words.push_back(layout::describe_ranks(ranks));
  return joined(words);
}

}  // namespace ttrace::localize
