#include "localize/causes/separating_axes.h"

#include "localize/case_for_test.h"
#include "support/catch.h"

namespace ttrace::localize::separating_axes_test {
namespace {

using Classes = std::vector<std::vector<std::uint64_t>>;
using Axes = std::vector<std::string>;

class Replicas {
 public:
  explicit Replicas(trace::Mesh mesh) : trace_(std::move(mesh)) {
    trace_.put(test::make_entry("w", {1}), {1});
  }
  Axes axes(const Classes& classes) const { return separating_axes(ref(), {1, classes}); }
  std::string words(const Classes& classes) const { return describe_classes(ref(), {1, classes}); }

 private:
  measure::TensorRef ref() const { return {&trace_, &trace_.manifest().tensors[0]}; }

  test::MemoryTrace trace_;
};

// Ranks 0 and 1: dp 0; ranks 0 and 2: tp 0.
Replicas two_by_two() { return Replicas(test::make_mesh({{"dp", 2}, {"tp", 2}})); }

TEST_CASE("one axis separates the classes of ranks") {
  const Replicas replicas = two_by_two();
  CHECK(replicas.axes({{0, 2}, {1, 3}}) == Axes{"tp"});
  CHECK(replicas.words({{0, 2}, {1, 3}}) == "tp 0 and tp 1");
  CHECK(replicas.axes({{0, 1}, {2, 3}}) == Axes{"dp"});
  CHECK(replicas.words({{0, 1}, {2, 3}}) == "dp 0 and dp 1");
}

TEST_CASE("copies that agree are separated by nothing") {
  CHECK(two_by_two().axes({{0, 1, 2, 3}}).empty());
  CHECK(two_by_two().axes({}).empty());
}

TEST_CASE("both axes separate where a single rank or a diagonal disagrees") {
  const Replicas replicas = two_by_two();
  CHECK(replicas.axes({{0}, {1, 2, 3}}) == Axes{"dp", "tp"});
  CHECK(replicas.words({{0}, {1, 2, 3}}) == "rank 0 and ranks {1, 2, 3}");
  CHECK(replicas.axes({{0, 3}, {1, 2}}) == Axes{"dp", "tp"});
  CHECK(replicas.axes({{0}, {1}, {2}, {3}}) == Axes{"dp", "tp"});
  CHECK(replicas.words({{0}, {1}, {2}, {3}}) == "rank 0, rank 1, rank 2 and rank 3");
}

TEST_CASE("only ranks that hold the tensor count") {
  // Held at dp 0 alone.
  CHECK(two_by_two().axes({{0}, {1}}) == Axes{"tp"});
  CHECK(two_by_two().words({{0}, {1}}) == "tp 0 and tp 1");
  // No step along one axis leads from one class into the other.
  CHECK(two_by_two().axes({{0}, {3}}).empty());
  CHECK(two_by_two().words({{0}, {3}}) == "rank 0 and rank 3");
}

TEST_CASE("ranks lie where the mesh puts them") {
  trace::Mesh mesh = test::make_mesh({{"dp", 2}, {"tp", 2}});
  mesh.ranks = {3, 1, 2, 0};
  const Replicas replicas(mesh);
  CHECK(replicas.axes({{3, 2}, {1, 0}}) == Axes{"tp"});
  CHECK(replicas.axes({{3, 1}, {2, 0}}) == Axes{"dp"});
}

TEST_CASE("a class of several coordinates is told by all of them") {
  const Replicas replicas(test::make_mesh({{"tp", 3}}));
  CHECK(replicas.words({{0, 2}, {1}}) == "tp 0 and 2 and tp 1");
  CHECK(replicas.words({{0}, {1}, {2}}) == "tp 0, tp 1 and tp 2");
}

TEST_CASE("coordinates that occur in several classes do not name them") {
  // Held at four of eight places: dp separates, but dp 0 is in both classes.
  const Replicas replicas(test::make_mesh({{"dp", 2}, {"tp", 2}, {"cp", 2}}));
  CHECK(replicas.axes({{0, 7}, {3, 4}}) == Axes{"dp"});
  CHECK(replicas.words({{0, 7}, {3, 4}}) == "ranks {0, 7} and ranks {3, 4}");
}

TEST_CASE("more than four classes are counted, not listed") {
  const Replicas replicas(test::make_mesh({{"tp", 6}}));
  CHECK(replicas.words({{0}, {1}, {2}, {3}}) == "tp 0, tp 1, tp 2 and tp 3");
  CHECK(replicas.words({{0}, {1}, {2}, {3}, {4, 5}}) == "5 groups of ranks");
  CHECK(replicas.axes({{0}, {1}, {2}, {3}, {4, 5}}) == Axes{"tp"});
}

}  // namespace
}  // namespace ttrace::localize::separating_axes_test
