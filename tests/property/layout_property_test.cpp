// Who holds what under random layouts, by the library's boxes and by dealing out single elements.
#include <map>

#include "base/error.h"
#include "layout/layout_problems.h"
#include "layout/plan.h"
#include "property/random_layout.h"

namespace ttrace::layout::layout_property_test {
namespace {

using base::concat;
using test::NaiveArray;
using test::NaiveDeal;
using test::NaiveHolder;
using test::Random;
using test::RandomTensor;

// Counts `point` up within `box`, the last dimension first; false after the last point.
bool next_point(const tensor::Box& box, tensor::Shape& point) {
  for (std::size_t d = point.size(); d-- > 0;) {
    if (++point[d] < box.origin[d] + box.extent[d]) return true;
    point[d] = box.origin[d];
  }
  return false;
}

struct Expanded {
  NaiveArray dataset;
  std::string problem;
};

// The dataset that `held` describes, every element as its number in the tensor.
Expanded expanded(const LocalLayout& held, const tensor::Shape& shape) {
  Expanded result{{held.dataset_shape(), {}}, ""};
  std::uint64_t count = 1;
  for (const std::uint64_t extent : result.dataset.shape) count *= extent;
  std::vector<std::int64_t>& elements = result.dataset.elements;
  elements.assign(count, -1);
  std::uint64_t last_start = 0;
  for (const PlacedBox& part : held.parts) {
    if (tensor::empty(part.global)) result.problem = "an empty part";
    if (part.global.extent != part.local.extent) result.problem = "a part of two extents";
    const std::uint64_t start = tensor::position(held.shape, part.local.origin);
    if (start < last_start) result.problem = "parts out of order";
    last_start = start;
    tensor::Shape local = part.local.origin;
    tensor::Shape global = part.global.origin;
    do {
      const std::uint64_t at =
          tensor::position(held.shape, local) - (held.range ? held.range->start : 0);
      if (at >= count || elements[at] != -1) {
        result.problem = concat("local element ", at, " of ", count, " outside or told twice");
        return result;
      }
      elements[at] = static_cast<std::int64_t>(tensor::position(shape, global));
      next_point(part.global, global);
    } while (next_point(part.local, local));
  }
  return result;
}

bool has_elements(const NaiveArray& dataset) {
  for (const std::int64_t element : dataset.elements) {
    if (element >= 0) return true;
  }
  return false;
}

std::string difference(const LocalLayout& held, const NaiveHolder& expected,
                       const tensor::Shape& shape) {
  const Expanded got = expanded(held, shape);
  if (!got.problem.empty()) return concat("rank ", expected.rank, ": ", got.problem);
  if (got.dataset.shape != expected.dataset.shape) {
    return concat("rank ", expected.rank, " holds ", tensor::to_string(got.dataset.shape),
                  ", expected ", tensor::to_string(expected.dataset.shape));
  }
  if (got.dataset.elements != expected.dataset.elements) {
    return concat("rank ", expected.rank, " holds other elements");
  }
  return "";
}

std::string coordinates_differ(const RandomTensor& tensor, const trace::Mesh& mesh,
                               const NaiveDeal& deal, const RowNumbers& rows) {
  std::vector<std::uint64_t> at(mesh.axes.size(), 0);
  for (std::uint64_t linear = 0; linear < test::size_of(mesh); ++linear) {
    const auto held = local_layout(tensor.entry, mesh, at, rows);
    const NaiveHolder* expected = deal.at(linear);
    if (held.has_value() != (expected != nullptr)) {
      return concat("coordinate ", linear, held ? " holds" : " does not hold", " the tensor");
    }
    if (held) {
      const std::string problem = difference(*held, *expected, tensor.entry.shape);
      if (!problem.empty()) return problem;
    }
    for (std::size_t a = at.size(); a-- > 0 && ++at[a] == mesh.axes[a].size;) at[a] = 0;
  }
  return "";
}

std::string plan_differs(const Plan& plan, const RandomTensor& tensor, const NaiveDeal& deal) {
  std::map<std::uint64_t, const NaiveHolder*> by_rank;
  for (const NaiveHolder& holder : deal.holders) {
    if (has_elements(holder.dataset)) by_rank[holder.rank] = &holder;
  }
  std::vector<int> times(tensor.elements(), 0);
  for (const Block& block : plan.blocks) {
    const Expanded told = expanded(block.held, tensor.entry.shape);
    for (const std::int64_t element : told.dataset.elements) {
      if (element >= 0) ++times[static_cast<std::size_t>(element)];
    }
    if (block.terms.size() != deal.terms) return concat(block.terms.size(), " terms");
    for (std::size_t t = 0; t < block.terms.size(); ++t) {
      if (block.terms[t].ranks.empty()) return concat("term ", t, " of nobody");
      for (const std::uint64_t rank : block.terms[t].ranks) {
        const auto holder = by_rank.find(rank);
        if (holder == by_rank.end()) return concat("rank ", rank, " twice, or it holds nothing");
        if (holder->second->term != t) return concat("rank ", rank, " in term ", t);
        std::string problem = difference(block.held, *holder->second, tensor.entry.shape);
        if (!problem.empty()) return problem;
        by_rank.erase(holder);
      }
    }
  }
  if (!by_rank.empty()) return concat("rank ", by_rank.begin()->first, " is in no block");
  for (std::size_t i = 0; i < times.size(); ++i) {
    if (times[i] != 1) return concat("element ", i, " is in ", times[i], " blocks");
  }
  return "";
}

std::string case_problem(const RandomTensor& tensor, const trace::Mesh& mesh) {
  const test::NaiveRows rows = tensor.rows(mesh);
  const NaiveDeal deal = test::deal_naively(tensor.entry, mesh, rows);
  if (!deal.fits) return "the case itself: numbers that do not fit";
  for (const int times : test::times_held(deal, tensor.elements())) {
    if (times != 1) return concat("the case itself: an element held ", times, " times");
  }
  const RowNumbers numbers = [&](std::uint64_t rank) {
    for (const NaiveHolder& holder : deal.holders) {
      if (holder.rank == rank) return rows[holder.linear];
    }
    throw base::internal_error("rank ", rank, " holds no rows");
  };
  trace::Manifest manifest;
  manifest.meshes.emplace("", mesh);
  manifest.tensors.push_back(tensor.entry);
  if (tensor.index) manifest.tensors.push_back(*tensor.index);
  for (const std::string& problem : layout_problems(manifest)) return problem;
  try {
    std::string problem = coordinates_differ(tensor, mesh, deal, numbers);
    if (!problem.empty()) return problem;
    return plan_differs(plan_layout(tensor.entry, mesh, numbers), tensor, deal);
  } catch (const base::Error& error) {
    return error.what();
  }
}

TEST_CASE("random layouts give every coordinate what dealing out single elements gives it") {
  test::for_seeds(8000, [](Random& random) {
    const trace::Mesh mesh = test::random_mesh(random);
    const RandomTensor tensor = test::random_tensor(random, mesh, test::random_shape(random));
    test::check_case(case_problem(tensor, mesh), mesh, tensor);
  });
}

}  // namespace
}  // namespace ttrace::layout::layout_property_test
