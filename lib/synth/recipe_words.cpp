#include "synth/recipe_words.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "base/checked.h"
#include "base/error.h"
#include "base/number_text.h"
#include "layout/plan.h"
#include "trace/limits.h"

namespace ttrace::synth {
namespace {

std::optional<std::uint64_t> count_from(std::string_view digits) {
  std::uint64_t value = 0;
  const char* const end = digits.data() + digits.size();
  const auto [stop, problem] = std::from_chars(digits.data(), end, value);
  if (problem != std::errc() || stop != end) return std::nullopt;
  return value;
}

struct Assignment {
  std::string axis;
  std::string_view value;
};

Assignment split(std::string_view word, std::string_view example) {
  const std::size_t equals = word.find('=');
  if (equals == std::string_view::npos || equals == 0) {
    throw base::usage_error("\"", base::printable(word), "\": expected something like ", example);
  }
  return {std::string(word.substr(0, equals)), word.substr(equals + 1)};
}

[[noreturn]] void refuse_placement(std::string_view word) {
  throw base::usage_error(
      "\"", base::printable(word),
      "\": expected replicate, shard:DIM, zigzag:DIM, strided:DIM:STRIDE, flat, "
      "partial[:sum|mean|max], only:COORDINATE or stages; a --spec file has the "
      "other placements");
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
  refuse_placement(word);
}

void check_fits(const trace::Placement& placement, const trace::MeshAxis& axis,
                std::string_view word, const Group& group) {
  const tensor::Shape& shape = group.entry.shape;
  if (const auto dim = trace::cut_dimension(placement); dim && *dim >= shape.size()) {
    throw base::usage_error("\"", base::printable(word), "\": there is no dimension ", *dim, " in ",
                            tensor::to_string(shape));
  }
  const auto* only = std::get_if<trace::Only>(&placement);
  if (only != nullptr && only->coordinate >= axis.size) {
    throw base::usage_error("\"", base::printable(word), "\": the axis has size ", axis.size);
  }
  if (std::holds_alternative<trace::Partial>(placement) &&
      !tensor::is_floating(group.entry.dtype)) {
    throw base::usage_error("\"", base::printable(word),
                            "\": only floating-point tensors are "
                            "reduced");
  }
}

void set_flat_ranges(const trace::MeshAxis& axis, const trace::Mesh& mesh, Group& group) {
  trace::TensorEntry others = group.entry;
  others.placements.erase(axis.name);
  const auto held = layout::held_at(others, mesh, std::vector<std::uint64_t>(mesh.axes.size(), 0));
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

tensor::Shape shape_from(std::string_view word) {
  tensor::Shape shape;
  const std::string_view all = word;
  while (!word.empty()) {
    const std::size_t x = word.find('x');
    const auto extent = count_from(word.substr(0, x));
    if (!extent || (x != std::string_view::npos && x + 1 == word.size())) {
      throw base::usage_error("\"", base::printable(all), "\": expected extents as in 4096x1024");
    }
    shape.push_back(*extent);
    word = x == std::string_view::npos ? std::string_view() : word.substr(x + 1);
  }
  if (shape.size() > tensor::kMostDimensions) {
    throw base::usage_error("\"", base::printable(all), "\": ", shape.size(),
                            " dimensions, at most ", tensor::kMostDimensions, " are possible");
  }
  return shape;
}

trace::Mesh mesh_from_words(const std::vector<std::string>& words) {
  trace::Mesh mesh;
  if (words.size() > trace::kMostAxes) {
    throw base::usage_error("--mesh: more than ", trace::kMostAxes, " axes");
  }
  std::uint64_t ranks = 1;
  for (const std::string& word : words) {
    const Assignment given = split(word, "tp=8");
    const auto size = count_from(given.value);
    if (!size || *size == 0 || trace::name_problem(given.axis)) {
      throw base::usage_error("\"", base::printable(word), "\": expected something like tp=8");
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

void place_by_words(const std::vector<std::string>& words, const trace::Mesh& mesh, Group& group) {
  const trace::MeshAxis* flat = nullptr;
  for (const std::string& word : words) {
    const Assignment given = split(word, "tp=shard:0");
    const auto axis =
        std::find_if(mesh.axes.begin(), mesh.axes.end(),
                     [&given](const trace::MeshAxis& one) { return one.name == given.axis; });
    if (axis == mesh.axes.end()) {
      throw base::usage_error("\"", base::printable(word), "\": --mesh has no such axis");
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
