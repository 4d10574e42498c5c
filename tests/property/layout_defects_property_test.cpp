// Random layouts with a number changed: always reported, and with a place that is really wrong.
#include <algorithm>

#include "base/error.h"
#include "layout/layout_problems.h"
#include "layout/plan.h"
#include "property/message_place.h"
#include "property/random_defect.h"

namespace ttrace::layout::layout_defects_property_test {
namespace {

using base::concat;
using test::NaiveDeal;
using test::NaiveHolder;
using test::Random;
using test::RandomTensor;

std::vector<std::string> problems_of(const RandomTensor& tensor, const trace::Mesh& mesh) {
  trace::Manifest manifest;
  manifest.meshes.emplace("", mesh);
  manifest.tensors.push_back(tensor.entry);
  if (tensor.index) manifest.tensors.push_back(*tensor.index);
  return layout_problems(manifest);
}

std::optional<std::string> told_axis(const std::string& message, const trace::Mesh& mesh) {
  for (const trace::MeshAxis& axis : mesh.axes) {
    if (message.find(concat("/tensors/0/placements/", axis.name, ": ")) == 0) return axis.name;
  }
  return std::nullopt;
}

// The tensor as it is when the axes up to `axis` have cut it, and the flat one if that is `axis`.
RandomTensor up_to(RandomTensor tensor, const trace::Mesh& mesh, const std::string& axis) {
  auto& placements = tensor.entry.placements;
  const bool is_flat = std::holds_alternative<trace::Flat>(placements.at(axis));
  bool later = false;
  for (const trace::MeshAxis& known : mesh.axes) {
    const auto placed = placements.find(known.name);
    if (placed != placements.end() && known.name != axis && !is_flat) {
      const bool only = std::holds_alternative<trace::Only>(placed->second);
      const bool flat = std::holds_alternative<trace::Flat>(placed->second);
      if (flat || (later && !only)) placements.erase(known.name);
    }
    later = later || known.name == axis;
  }
  return tensor;
}

bool holds_all(const NaiveHolder& holder, const std::vector<std::int64_t>& elements) {
  return std::all_of(elements.begin(), elements.end(), [&](std::int64_t element) {
    const auto& held = holder.dataset.elements;
    return std::find(held.begin(), held.end(), element) != held.end();
  });
}

// What is wrong with a message that says who holds a box.
std::string box_problem(const std::string& message, const tensor::Box& box,
                        const RandomTensor& tensor, const trace::Mesh& mesh,
                        const std::string& axis) {
  const NaiveDeal deal = up_to(tensor, mesh, axis).deal(mesh);
  std::vector<std::int64_t> inside;
  for (std::uint64_t i = 0; i < tensor::volume(box); ++i) {
    inside.push_back(static_cast<std::int64_t>(
        tensor::position(tensor.entry.shape, tensor::coordinates(box, i))));
  }
  if (inside.empty()) return "an empty box is told";
  if (message.find("held by nobody") != std::string::npos) {
    const std::vector<int> times = test::times_held(deal, tensor.elements());
    for (const std::int64_t element : inside) {
      if (times[static_cast<std::size_t>(element)] != 0) return "the box told is held";
    }
    return "";
  }
  const std::vector<std::uint64_t> ranks = test::numbers_after(message, "(rank ");
  if (ranks.size() != 2 || ranks[0] == ranks[1]) return "not two ranks told";
  for (const NaiveHolder& holder : deal.holders) {
    const bool told = std::find(ranks.begin(), ranks.end(), holder.rank) != ranks.end();
    if (told && !holds_all(holder, inside))
      return concat("rank ", holder.rank, " does not hold it");
  }
  return "";
}

// Whether box or range number `index` of the axis is beyond what it is of, or there are more or
// fewer of them than coordinates.
bool is_beyond(const RandomTensor& tensor, const trace::Mesh& mesh, const std::string& axis,
               std::size_t index) {
  RandomTensor whole = up_to(tensor, mesh, axis);
  const trace::Placement placement = whole.entry.placements.at(axis);
  whole.entry.placements.erase(axis);
  for (const NaiveHolder& holder : whole.deal(mesh).holders) {
    if (const auto* flat = std::get_if<trace::Flat>(&placement)) {
      if (flat->ranges.at(index).stop > holder.array.elements.size()) return true;
      continue;
    }
    const tensor::Box& box = std::get<trace::Boxes>(placement).boxes.at(index);
    for (std::size_t d = 0; d < box.origin.size(); ++d) {
      if (box.origin[d] + box.extent[d] > holder.array.shape[d]) return true;
    }
  }
  return false;
}

std::string message_problem(const std::string& message, const RandomTensor& tensor,
                            const trace::Mesh& mesh) {
  const auto axis = told_axis(message, mesh);
  if (!axis) return "no pointer to a placement";
  const trace::Placement& placement = tensor.entry.placements.at(*axis);
  const bool boxes = std::holds_alternative<trace::Boxes>(placement);
  if (!boxes && !std::holds_alternative<trace::Flat>(placement)) return "";
  const std::string item = boxes ? "box " : "range ";
  if (message.find(boxes ? " boxes for " : " flat ranges for ") != std::string::npos) return "";
  if (message.find("held by") == std::string::npos) {
    const std::vector<std::uint64_t> told = test::numbers_after(message, item);
    if (told.size() != 1) return concat("no ", item, "told");
    return is_beyond(tensor, mesh, *axis, told[0]) ? "" : concat("that ", item, "fits");
  }
  const auto box = test::box_after(message, 0, tensor.entry.shape.size());
  if (!box) return "no box told";
  return box_problem(message, *box, tensor, mesh, *axis);
}

TEST_CASE("a changed number in a random layout is told with a place that is wrong") {
  std::uint64_t found = 0;
  test::for_seeds(9000, [&](Random& random) {
    const trace::Mesh mesh = test::random_mesh(random);
    const RandomTensor sound = test::random_tensor(random, mesh, test::random_shape(random));
    const auto changed = test::with_defect(random, mesh, sound);
    if (!changed) return;
    ++found;
    const std::vector<std::string> problems = problems_of(*changed, mesh);
    std::string problem = problems.empty() ? "nothing is told" : "";
    for (const std::string& message : problems) {
      problem = message_problem(message, *changed, mesh);
      if (!problem.empty()) problem += ": " + message;
    }
    test::check_case(problem, mesh, *changed);
  });
  CHECK(found > 3000);  // not all layouts have a number to change
}

}  // namespace
}  // namespace ttrace::layout::layout_defects_property_test
