// Random tensors made of other tensors, read, measured and located as if they were dense.
#include <algorithm>

#include "base/error.h"
#include "measure/cpu/cpu_backend.h"
#include "measure/measure.h"
#include "property/random_view.h"

namespace ttrace::measure::view_property_test {
namespace {

using base::concat;
using test::Doubles;
using test::MemoryTrace;
using test::Origin;
using test::Random;
using test::RandomView;
using test::RandomViews;

// Means of thirds round, and sums of them may cancel.
bool near(const Doubles& a, const Doubles& b) {
  for (std::size_t i = 0; i < a.size() && i < b.size(); ++i) {
    if (!(std::abs(a[i] - b[i]) <= 1e-9)) return false;
  }
  return a.size() == b.size();
}

std::string reading_problem(Random& random, TensorReader& reader, const RandomView& made) {
  const tensor::Box whole = tensor::whole(made.view->shape);
  for (int i = 0; i < 5; ++i) {
    const tensor::Box box = i == 0 ? whole : random.box_in(whole);
    Doubles out(tensor::volume(box), std::nan(""));
    if (tensor::is_floating(made.view->dtype)) {
      reader.read(box, out);
    } else {
      std::vector<std::int64_t> integers(out.size());
      reader.read_integers(box, integers);
      out.assign(integers.begin(), integers.end());
    }
    if (!near(out, test::values_in(box, made.view->shape, made.values))) {
      return concat("other values in ", tensor::to_string(box));
    }
  }
  return "";
}

// Whether the element of a rank's dataset at `place` is `origin`.
bool is_at(const ElementPlace& place, const Origin& origin,
           const std::deque<test::DealtTensor>& tensors) {
  for (const test::NaiveHolder& holder : tensors[origin.tensor].deal.holders) {
    if (holder.rank != place.rank) continue;
    if (place.local.size() != holder.dataset.shape.size()) return false;
    const std::size_t at = test::place_of(place.local, holder.dataset.shape);
    const auto& elements = holder.dataset.elements;
    return at < elements.size() && elements[at] == static_cast<std::int64_t>(origin.element);
  }
  return false;
}

std::string region_problem(const TensorReader& reader, const RandomView& made,
                           const std::deque<test::DealtTensor>& tensors) {
  std::vector<const RankBoxes*> region_of(made.values.size(), nullptr);
  const std::vector<tensor::Shape> points = test::points_of(made.view->shape);
  const std::vector<RankBoxes> regions = reader.rank_boxes();
  for (const RankBoxes& region : regions) {
    if (!std::is_sorted(region.ranks.begin(), region.ranks.end())) return "ranks out of order";
    for (const tensor::Box& box : region.boxes) {
      for (std::uint64_t i = 0; i < tensor::volume(box); ++i) {
        const std::size_t at = test::place_of(tensor::coordinates(box, i), made.view->shape);
        if (std::exchange(region_of.at(at), &region) != nullptr) return "an element in two regions";
      }
    }
  }
  for (std::size_t i = 0; i < points.size(); ++i) {
    const auto place = reader.locate(points[i]);
    if (place.has_value() != made.origins[i].has_value()) return "padding that is not, or is";
    if (region_of[i] == nullptr) return "an element in no region";
    if (!place) continue;
    if (!is_at(*place, *made.origins[i], tensors)) return concat("element ", i, " not where told");
    const auto& ranks = region_of[i]->ranks;
    if (!std::binary_search(ranks.begin(), ranks.end(), place->rank)) {
      return concat("rank ", place->rank, " is not of the region");
    }
  }
  return "";
}

std::string measuring_problem(const MemoryTrace& trace, const RandomView& made) {
  MemoryTrace single;
  const trace::TensorEntry entry =
      test::make_entry("w", made.view->shape, trace::Kind::kOutput, made.view->dtype);
  single.put(entry, made.values);
  const Measurement measured = measure(cpu_backend(), {&single, &entry}, {&trace, made.view}, {});
  if (measured.total.elements != made.values.size()) {
    return concat(measured.total.elements, " elements seen");
  }
  if (measured.replicas_differ) return "replicas differ";
  if (!tensor::is_floating(made.view->dtype) && measured.total.unequal > 0) return "unequal";
  const double difference = difference_norm(measured.total);
  return difference <= 1e-9 ? "" : concat("off by ", difference);
}

std::string case_problem(Random& random, const MemoryTrace& trace, RandomView made,
                         const std::deque<test::DealtTensor>& tensors) {
  if (layout::stored_in(*made.view).empty()) return "made of nothing";
  if (random.chance(0.2)) {
    made.view = layout::with_entries(made.view, [](const trace::TensorEntry& e) { return e; });
  }
  const auto reader = make_reader(trace, *made.view, Replicas::kFirstOnly);
  std::string problem = reading_problem(random, *reader, made);
  if (problem.empty()) problem = region_problem(*reader, made, tensors);
  return problem.empty() ? measuring_problem(trace, made) : problem;
}

TEST_CASE("random tensors made of others are what their parts say") {
  test::for_seeds(4000, [](Random& random) {
    const trace::Mesh mesh = test::random_mesh(random);
    MemoryTrace trace(mesh);
    const auto dtype = random.chance(0.25) ? tensor::DType::kInt64 : tensor::DType::kFloat64;
    RandomViews views(random, trace, dtype);
    tensor::Shape shape = test::random_shape(random);
    if (shape.size() > 3) shape.resize(3);
    const RandomView made = views.make(shape, random.chance(0.3) ? 2 : 1);
    std::string problem;
    try {
      problem = case_problem(random, trace, made, views.tensors());
    } catch (const base::Error& error) {
      problem = error.what();
    }
    test::check_case(problem, mesh, views.tensors().front().tensor);
  });
}

}  // namespace
}  // namespace ttrace::measure::view_property_test
