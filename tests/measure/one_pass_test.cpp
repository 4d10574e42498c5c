#include "measure/one_pass.h"

#include <map>
#include <string>
#include <vector>

#include "base/error.h"
#include "measure/sections.h"
#include "property/random.h"
#include "support/memory_trace.h"

namespace ttrace::measure::one_pass_test {
namespace {

using tensor::DType;
using test::make_entry;
using test::make_mesh;
using test::MemoryTrace;
using Doubles = std::vector<double>;

// A tensor in a trace of its own.
struct Made {
  Made(const Doubles& values, const tensor::Shape& shape, DType dtype = DType::kFloat32,
       const std::map<std::string, trace::Placement>& placements = {}, std::uint64_t ranks = 2)
      : source(make_mesh({{"tp", ranks}})),
        entry(make_entry("w", shape, trace::Kind::kOutput, dtype)) {
    entry.placements = placements;
    source.put(entry, values);
  }
  TensorRef ref() const { return {&source, &entry}; }

  MemoryTrace source;
  trace::TensorEntry entry;
};

Doubles moved(Doubles values, std::size_t from, std::uint32_t seed) {
  test::Random random(seed);
  for (std::size_t i = from; i < values.size(); ++i) values[i] += 1e-3 * random.symmetric();
  return values;
}

void check_same(const std::vector<CellSums>& a, const std::vector<CellSums>& b) {
  REQUIRE(a.size() == b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    CHECK(a[i].d2 == b[i].d2);
    CHECK(a[i].a2 == b[i].a2);
    CHECK(a[i].along == b[i].along);
  }
}

// The one pass against a pass for the pair and one for the noise.
void check_one_pass(const TensorRef& reference, const TensorRef& candidate,
                    const std::vector<TensorRef>& runs, const Grid& grid, bool by_grid,
                    bool expected) {
  const Grid single(grid.shape(), tensor::Shape(grid.shape().size(), 1));
  const tensor::Box section = tensor::whole(grid.shape());
  const Backend& cpu = cpu_backend();
  SectionWithNoise both =
      measure_with_noise(cpu, reference, candidate, runs, grid, section, by_grid);
  CHECK(both.by_grid == expected);
  MeasuredSection pair =
      measure_section(cpu, reference, candidate, expected ? &grid : &single, section);
  check_same(both.pair.sums.cells, pair.sums.cells);
  std::vector<MeasuredSection> found;
  std::vector<MeasuredSection> wanted;
  found.push_back(std::move(both.pair));
  wanted.push_back(std::move(pair));
  const Measurement a = merge_sections(std::move(found));
  const Measurement b = merge_sections(std::move(wanted));
  CHECK(a.total.elements == b.total.elements);
  CHECK(a.total.sum_d2 == b.total.sum_d2);
  CHECK(a.total.sum_rc == b.total.sum_rc);
  CHECK(a.total.unequal == b.total.unequal);
  CHECK(a.largest_place->rank == b.largest_place->rank);
  CHECK(a.blocks.size() == b.blocks.size());
  const NoiseSection noise = measure_noise_section(cpu, reference, runs, grid, section);
  REQUIRE(both.noise.runs.size() == noise.runs.size());
  for (std::size_t run = 0; run < noise.runs.size(); ++run) {
    check_same(both.noise.runs[run].cells, noise.runs[run].cells);
    CHECK(both.noise.runs[run].largest == noise.runs[run].largest);
  }
}

TEST_CASE("a pair and its noise are measured in one pass as in two") {
  for (const tensor::Shape& shape : {tensor::Shape{600, 500}, tensor::Shape{40, 30}}) {
    const std::uint64_t elements = shape[0] * shape[1];
    const bool is_large = elements > 4 * kReadElements;
    const Doubles r = test::Random(1).values(elements);
    const Grid grid(shape, {4, 5});
    const Made candidate(moved(r, 0, 2), shape, DType::kFloat32,
                         {{"tp", trace::Shard{1, std::nullopt}}});
    for (const DType dtype : {DType::kFloat32, DType::kFloat64}) {
      CAPTURE(shape, tensor::dtype_name(dtype));
      const Made reference(r, shape, dtype);
      const Made equal(r, shape, dtype);
      const Made early(moved(r, 0, 3), shape);
      const Made late(moved(r, elements - 100, 4), shape, dtype);
      const auto check = [&](const std::vector<TensorRef>& runs, bool by_grid, bool expected) {
        check_one_pass(reference.ref(), candidate.ref(), runs, grid, by_grid, expected);
      };
      // What the first elements of a large tensor say is worth more than what its kind does.
      check({equal.ref()}, true, !is_large);
      check({equal.ref()}, false, false);
      check({equal.ref(), early.ref()}, false, is_large);
      check({early.ref()}, true, true);
      check({late.ref()}, false, false);
    }
  }
}

TEST_CASE("noise is measured by its own boxes where many ranks share the candidate's") {
  const tensor::Shape shape{600, 512};
  const Doubles r = test::Random(5).values(shape[0] * shape[1]);
  const Made reference(r, shape);
  const Made run(moved(r, 0, 6), shape);
  const Made candidate(moved(r, 0, 7), shape, DType::kFloat32,
                       {{"tp", trace::Shard{1, std::nullopt}}}, 16);
  check_one_pass(reference.ref(), candidate.ref(), {run.ref()}, Grid(shape, {3, 4}), true, true);
}

TEST_CASE("the reference is read once") {
  const tensor::Shape shape{100, 100};
  const Doubles r = test::Random(8).values(shape[0] * shape[1]);
  const Made reference(r, shape, DType::kFloat32, {}, 1);
  const Made run(moved(r, 0, 9), shape, DType::kFloat32, {}, 1);
  const Made candidate(moved(r, 0, 10), shape, DType::kFloat32, {}, 1);
  const SectionWithNoise both =
      measure_with_noise(cpu_backend(), reference.ref(), candidate.ref(), {run.ref()},
                         Grid(shape, {2, 2}), tensor::whole(shape), true);
  CHECK(both.pair.sums.bytes_read == 2 * r.size() * sizeof(float));
  CHECK(both.noise.bytes_read == r.size() * sizeof(float));
}

}  // namespace
}  // namespace ttrace::measure::one_pass_test
