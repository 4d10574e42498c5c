#include "synth/recipe.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/checked.h"
#include "base/error.h"
#include "base/number_text.h"
#include "layout/plan.h"
#include "layout/rows.h"

namespace ttrace::synth {
namespace {

constexpr std::string_view kNumber = "{i}";

// "spec.json: /tensors/2", or nothing to say for the one group of the command line.
std::string place_of(const Recipe& recipe, std::size_t group) {
  return recipe.file.empty() ? "the tensors" : base::concat(recipe.file, ": /tensors/", group);
}

void check_name(const Group& group, const std::string& place) {
  const std::string& pattern = group.entry.key.name;
  if (group.count > 1 && pattern.find(kNumber) == std::string::npos) {
    throw base::input_error(place, ": ", group.count, " tensors would all be called \"",
                            base::printable(pattern), "\"; put {i} where their number shall stand");
  }
  for (const std::uint64_t number : {std::uint64_t{0}, group.count - 1}) {
    const auto problem = trace::name_problem(group.entry_of(number).key.name);
    if (problem) throw base::input_error(place, ": ", *problem);
  }
}

void check_stages(const Group& group, const std::string& place) {
  if (group.stages.empty()) return;
  if (group.entry.held_at.contains(group.stages) || group.entry.placements.contains(group.stages)) {
    throw base::input_error(place, ": the axis \"", base::printable(group.stages),
                            "\" has stages, and a placement or held_at too; give one");
  }
}

void check_size(const Group& group, const std::string& place) {
  const auto bytes = tensor::byte_count(group.entry.shape, group.entry.dtype);
  if (!bytes || !base::checked_mul(*bytes, group.count)) {
    throw base::input_error(place, ": the size in bytes of ", group.count, " times ",
                            tensor::to_string(group.entry.shape), " ",
                            tensor::dtype_name(group.entry.dtype), " overflows 64 bits");
  }
}

void check_index(const Group& group, const std::string& place) {
  if (group.entry.key.kind != trace::Kind::kIndex) return;
  const tensor::DType dtype = group.entry.dtype;
  if (tensor::is_floating(dtype) || dtype == tensor::DType::kBool ||
      group.entry.shape.size() != 1) {
    throw base::input_error(place, ": an index holds integers in one dimension, not ",
                            tensor::to_string(group.entry.shape), " ", tensor::dtype_name(dtype));
  }
  const auto bits = static_cast<int>(8 * tensor::element_bytes(dtype));
  const std::uint64_t rows = group.entry.shape[0];
  if (rows > std::uint64_t{1} << std::min(bits - 1, 32)) {
    throw base::input_error(place, ": ", rows, " rows cannot be numbered in ",
                            tensor::dtype_name(dtype));
  }
}

void check_storage(const Group& group, const std::string& place) {
  const trace::Storage& storage = group.storage;
  if (storage.sparse && (storage.deflate || storage.shuffle)) {
    throw base::input_error(place, ": what is sparse is not written, and cannot be filtered");
  }
  if (!storage.chunk.empty() && storage.chunk.size() != group.entry.shape.size()) {
    throw base::input_error(place, ": a chunk of ", storage.chunk.size(),
                            " dimensions for tensors of ", tensor::to_string(group.entry.shape));
  }
}

void check_layouts(const Recipe& recipe) {
  trace::Manifest examples;
  examples.meshes = recipe.meshes;
  for (const Group& group : recipe.groups) examples.tensors.push_back(group.entry_of(0));
  const std::vector<std::string> problems = layout::layout_problems(examples);
  if (problems.empty()) return;
  if (!recipe.file.empty()) throw base::input_error(recipe.file, ": ", problems.front());
  constexpr std::string_view kOnly = "/tensors/0/";
  const bool of_group = problems.front().starts_with(kOnly);
  throw base::input_error("the tensors: ", problems.front().substr(of_group ? kOnly.size() : 0));
}

void check_keys(const Recipe& recipe) {
  std::vector<std::pair<trace::TensorKey, std::size_t>> keys;
  for (std::size_t g = 0; g < recipe.groups.size(); ++g) {
    const Group& group = recipe.groups[g];
    for (std::uint64_t i = 0; i < group.count; ++i) keys.emplace_back(group.entry_of(i).key, g);
  }
  std::sort(keys.begin(), keys.end());
  const auto twice = std::adjacent_find(
      keys.begin(), keys.end(), [](const auto& a, const auto& b) { return a.first == b.first; });
  if (twice == keys.end()) return;
  throw base::input_error(place_of(recipe, std::next(twice)->second), ": ",
                          trace::to_string(twice->first), " stands twice");
}

}  // namespace

trace::TensorEntry Group::entry_of(std::uint64_t number) const {
  trace::TensorEntry one = entry;
  const std::string digits = std::to_string(number);
  for (std::size_t at = one.key.name.find(kNumber); at != std::string::npos;
       at = one.key.name.find(kNumber, at + digits.size())) {
    one.key.name.replace(at, kNumber.size(), digits);
  }
  if (!stages.empty()) one.held_at[stages] = {number * stage_count / count};
  return one;
}

std::uint64_t Group::first_at(std::uint64_t stage) const {
  return (stage * count + stage_count - 1) / stage_count;
}

std::uint64_t Recipe::tensors() const {
  std::uint64_t sum = 0;
  for (const Group& group : groups) sum += group.count;
  return sum;
}

void check_recipe(const Recipe& recipe) {
  std::uint64_t tensors = 0;
  for (std::size_t g = 0; g < recipe.groups.size(); ++g) {
    const Group& group = recipe.groups[g];
    const std::string place = place_of(recipe, g);
    tensors = base::checked_add(tensors, group.count).value_or(kMostTensors + 1);
    if (tensors > kMostTensors) {
      throw base::input_error(place, ": more than ", kMostTensors, " tensors");
    }
    check_name(group, place);
    check_stages(group, place);
    check_size(group, place);
    check_index(group, place);
    check_storage(group, place);
  }
  if (tensors == 0) throw base::input_error("a trace without tensors would check nothing");
  check_layouts(recipe);
  check_keys(recipe);
}

Recipe on_one_rank(const Recipe& recipe) {
  std::set<trace::TensorKey> indices;
  for (const Group& group : recipe.groups) {
    for (const auto& [axis, placement] : group.entry.placements) {
      const auto* rows = std::get_if<trace::Rows>(&placement);
      if (rows != nullptr) indices.insert(layout::index_key(group.entry.key, rows->index));
    }
  }
  Recipe whole{recipe.file, recipe.seed, {{"", {}}}, {}};
  for (const Group& group : recipe.groups) {
    if (group.count == 1 && indices.contains(group.entry_of(0).key)) continue;
    Group one = group;
    one.stages.clear();
    one.stage_count = 1;
    one.entry.mesh.clear();
    one.entry.held_at.clear();
    one.entry.placements.clear();
    one.entry.scale = 1;
    whole.groups.push_back(std::move(one));
  }
  return whole;
}

trace::Manifest manifest_of(const Recipe& recipe) {
  trace::Manifest manifest;
  manifest.meshes = recipe.meshes;
  manifest.tensors.reserve(recipe.tensors());
  for (const Group& group : recipe.groups) {
    for (std::uint64_t i = 0; i < group.count; ++i) {
      manifest.tensors.push_back(group.entry_of(i));
      manifest.tensors.back().order = manifest.tensors.size() - 1;
    }
  }
  return manifest;
}

}  // namespace ttrace::synth
