#include "synth/recipe.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <set>
#include <utility>

#include "base/bytes.h"
#include "base/error.h"
#include "base/text.h"
#include "layout/layout_problems.h"
#include "layout/plan.h"
#include "trace/manifest.h"
#include "trace/placement.h"

namespace ttrace::synth {
namespace {

constexpr std::string_view kNumber = "{i}";

// "spec.json: /tensors/2", or "the tensors" for the single group of the command line.
std::string place_of(const Recipe& recipe, std::size_t group) {
  return recipe.file.empty() ? "the tensors" : base::concat(recipe.file, ": /tensors/", group);
}

void check_name(const Group& group, const std::string& place) {
  const std::string& pattern = group.entry.key.name;
  if (group.count > 1 && pattern.find(kNumber) == std::string::npos) {
    throw base::input_error(place, ": ", group.count, " tensors would all be called \"",
                            base::printable(pattern), "\"; put {i} in place of their number");
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
    throw base::input_error(place, ": sparse datasets are not written, so they cannot be filtered");
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
      if (rows != nullptr) indices.insert(trace::index_key(group.entry.key, rows->index));
    }
  }
  Recipe whole{recipe.file, recipe.seed, {{"", {}}}, {}, recipe.optimizer};
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

void add_adamw_step(Recipe& recipe) {
  const Group param = recipe.groups.front();
  const auto add = [&](trace::Kind kind, const char* state, double size) {
    Group group = param;
    group.entry.key.kind = kind;
    group.entry.key.name += state;
    group.std_dev = size;
    recipe.groups.push_back(std::move(group));
  };
  constexpr double kWeights = 0.02;
  constexpr double kGradients = 1e-3;
  recipe.groups.clear();
  add(trace::Kind::kOptimizerState, ".exp_avg", kGradients);
  add(trace::Kind::kOptimizerState, ".exp_avg_sq", kGradients);
  add(trace::Kind::kParam, "", kWeights);
  add(trace::Kind::kMainGrad, "", kGradients);
  add(trace::Kind::kParamAfterStep, "", kWeights);
  trace::OptimizerGroup& group = recipe.optimizer.emplace();
  group.type = "adamw";
  group.numbers = {{"lr", 1e-3}, {"eps", 1e-8}, {"weight_decay", 0.01}, {"updates", 10}};
  group.switches = {{"amsgrad", false}, {"maximize", false}};
  group.betas = {0.9, 0.999};
}

std::vector<trace::OptimizerGroup> optimizer_of(const Recipe& recipe) {
  if (!recipe.optimizer) return {};
  trace::OptimizerGroup group = *recipe.optimizer;
  for (const Group& of : recipe.groups) {
    if (of.entry.key.kind != trace::Kind::kParam) continue;
    for (std::uint64_t i = 0; i < of.count; ++i) group.params.push_back(of.entry_of(i).key.name);
  }
  return {group};
}

trace::Manifest manifest_of(const Recipe& recipe) {
  trace::Manifest manifest;
  manifest.meshes = recipe.meshes;
  manifest.optimizer = optimizer_of(recipe);
  manifest.tensors.reserve(recipe.tensors());
  for (const Group& group : recipe.groups) {
    for (std::uint64_t i = 0; i < group.count; ++i) {
      manifest.tensors.push_back(group.entry_of(i));
      manifest.tensors.back().order = manifest.tensors.size() - 1;
    }
  }
  return manifest;
}

namespace {

std::optional<std::uint64_t> count_from(std::string_view digits) {
  std::uint64_t value = 0;
  const char* const end = digits.data() + digits.size();
  const auto [stop, problem] = std::from_chars(digits.data(), end, value);
  if (problem != std::errc() || stop != end) return std::nullopt;
  return value;
}

template <typename... Parts>
base::Error refusal(std::string_view word, const Parts&... parts) {
  return base::usage_error("\"", base::printable(word), "\": ", parts...);
}

struct Assignment {
  std::string axis;
  std::string_view value;
};

Assignment split(std::string_view word, std::string_view example) {
  const std::size_t equals = word.find('=');
  if (equals == std::string_view::npos || equals == 0) {
    throw refusal(word, "expected something like ", example);
  }
  return {std::string(word.substr(0, equals)), word.substr(equals + 1)};
}

trace::Placement placement_from_word(std::string_view word, std::string_view value) {
  const std::size_t colon = value.find(':');
  const std::string_view name = value.substr(0, colon);
  const std::string_view rest =
      colon == std::string_view::npos ? std::string_view() : value.substr(colon + 1);
  if (name == "replicate" && rest.empty()) return trace::Replicate{};
  if (name == "flat" && rest.empty()) return trace::Flat{};
  if (name == "partial") {
    for (const auto known :
         {trace::Reduction::kSum, trace::Reduction::kMean, trace::Reduction::kMax}) {
      if (rest == trace::reduction_name(known)) return trace::Partial{known};
    }
    if (rest.empty()) return trace::Partial{};
  } else if (name == "strided") {
    const std::size_t second = rest.find(':');
    const auto dim = count_from(rest.substr(0, second));
    const auto stride =
        second == std::string_view::npos ? std::nullopt : count_from(rest.substr(second + 1));
    if (dim && stride && *stride > 0) return trace::Strided{*dim, *stride};
  } else if (const auto number = count_from(rest)) {
    if (name == "shard") return trace::Shard{*number, std::nullopt};
    if (name == "zigzag") return trace::Zigzag{*number};
    if (name == "only") return trace::Only{*number};
  }
  throw refusal(word,
                "expected replicate, shard:DIM, zigzag:DIM, strided:DIM:STRIDE, flat, "
                "partial[:sum|mean|max], only:COORDINATE or stages; a --spec file has the "
                "other placements");
}

void check_fits(const trace::Placement& placement, const trace::MeshAxis& axis,
                std::string_view word, const Group& group) {
  const tensor::Shape& shape = group.entry.shape;
  if (const auto dim = trace::cut_dimension(placement); dim && *dim >= shape.size()) {
    throw refusal(word, "there is no dimension ", *dim, " in ", tensor::to_string(shape));
  }
  if (const auto why = misfit(placement, {shape, group.entry.dtype, axis.size})) {
    throw refusal(word, *why);
  }
}

void set_flat_ranges(const trace::MeshAxis& axis, const trace::Mesh& mesh, Group& group) {
  trace::TensorEntry others = group.entry;
  others.placements.erase(axis.name);
  const auto held =
      layout::local_layout(others, mesh, std::vector<std::uint64_t>(mesh.axes.size(), 0));
  const auto elements = held ? tensor::element_count(held->shape) : std::nullopt;
  if (!elements) {
    throw base::usage_error(axis.name,
                            "=flat: give the ranges in a --spec file where coordinate 0 "
                            "of another axis holds nothing");
  }
  const std::uint64_t length = *elements / axis.size + (*elements % axis.size != 0 ? 1 : 0);
  trace::Flat flat;
  for (std::uint64_t i = 0; i < axis.size; ++i) {
    const auto bound = [&](std::uint64_t k) {
      return std::min(base::checked_mul(k, length).value_or(*elements), *elements);
    };
    flat.ranges.push_back({bound(i), bound(i + 1)});
  }
  group.entry.placements[axis.name] = std::move(flat);
}

}  // namespace

tensor::Shape parse_shape(std::string_view word) {
  tensor::Shape shape;
  const std::string_view all = word;
  while (!word.empty()) {
    const std::size_t x = word.find('x');
    const auto extent = count_from(word.substr(0, x));
    if (!extent || (x != std::string_view::npos && x + 1 == word.size())) {
      throw refusal(all, "expected extents as in 4096x1024");
    }
    shape.push_back(*extent);
    word = x == std::string_view::npos ? std::string_view() : word.substr(x + 1);
  }
  if (shape.size() > tensor::kMostDimensions) {
    throw refusal(all, shape.size(), " dimensions, at most ", tensor::kMostDimensions,
                  " are possible");
  }
  return shape;
}

trace::Mesh parse_mesh(const std::vector<std::string>& words) {
  trace::Mesh mesh;
  if (words.size() > trace::kMostAxes) {
    throw base::usage_error("--mesh: more than ", trace::kMostAxes, " axes");
  }
  std::uint64_t ranks = 1;
  for (const std::string& word : words) {
    const Assignment given = split(word, "tp=8");
    const auto size = count_from(given.value);
    if (!size || *size == 0 || trace::name_problem(given.axis)) {
      throw refusal(word, "expected something like tp=8");
    }
    for (const trace::MeshAxis& axis : mesh.axes) {
      if (axis.name == given.axis) {
        throw base::usage_error("--mesh: the axis \"", axis.name, "\" stands twice");
      }
    }
    const auto product = base::checked_mul(ranks, *size);
    if (!product || *product > trace::kMostRanks) {
      throw base::usage_error("--mesh: more than ", trace::kMostRanks, " ranks");
    }
    ranks = *product;
    mesh.axes.push_back({given.axis, *size});
  }
  return mesh;
}

void parse_placements(const std::vector<std::string>& words, const trace::Mesh& mesh,
                      Group& group) {
  const trace::MeshAxis* flat = nullptr;
  for (const std::string& word : words) {
    const Assignment given = split(word, "tp=shard:0");
    const auto axis =
        std::find_if(mesh.axes.begin(), mesh.axes.end(),
                     [&given](const trace::MeshAxis& one) { return one.name == given.axis; });
    if (axis == mesh.axes.end()) {
      throw refusal(word, "--mesh has no such axis");
    }
    if (group.entry.placements.contains(axis->name) || group.stages == axis->name) {
      throw base::usage_error("--place: the axis \"", axis->name, "\" stands twice");
    }
    if (given.value == "stages") {
      if (!group.stages.empty()) throw base::usage_error("--place: stages over two axes");
      group.stages = axis->name;
      group.stage_count = axis->size;
      continue;
    }
    trace::Placement placement = placement_from_word(word, given.value);
    check_fits(placement, *axis, word, group);
    if (std::holds_alternative<trace::Flat>(placement)) {
      if (flat != nullptr) throw base::usage_error("--place: a second axis is flat");
      flat = &*axis;
    }
    group.entry.placements.emplace(axis->name, std::move(placement));
  }
  if (flat != nullptr) set_flat_ranges(*flat, mesh, group);
}

}  // namespace ttrace::synth
