#include "measure/noise.h"

#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/refusal.h"
#include "measure/cpu/cpu_backend.h"
#include "measure/sections.h"
#include "support/catch.h"
#include "support/memory_trace.h"

namespace ttrace::measure::noise_test {
namespace {

using tensor::DType;
using test::make_entry;
using test::make_mesh;
using test::MemoryTrace;
using Doubles = std::vector<double>;

// A whole tensor in a trace of one rank.
struct Whole {
  Whole(tensor::Shape shape, const Doubles& values)
      : entry(make_entry("w", std::move(shape), trace::Kind::kOutput, DType::kFloat64)) {
    source.put(entry, values);
  }
  TensorRef ref() const { return {&source, &entry}; }

  MemoryTrace source;
  trace::TensorEntry entry;
};

TEST_CASE("noise is the distance of every run from the reference") {
  const Whole reference({3}, {1, 2, 2});
  const Whole near({3}, {1, 2, 2.5});
  const Whole far({3}, {4, 2, 6});
  const MeasuredNoise noise = measure_noise(
      cpu_backend(), reference.ref(), {near.ref(), reference.ref(), far.ref()}, Grid({3}, {1}));
  CHECK(noise.norms == Doubles{0.5, 0, 5});
  CHECK(noise.largest == Doubles{0.5, 0, 4});
  CHECK(noise.cells == Doubles{5});
  CHECK(noise.reference_norm == 3);
  CHECK(noise.bytes_read == 4 * 3 * sizeof(double));
}

TEST_CASE("a cell's noise is that of the run that has most there") {
  const Whole reference({4}, {0, 0, 0, 0});
  const Whole first({4}, {3, 4, 0, 1});
  const Whole second({4}, {0, 0, 0, 2});
  const MeasuredNoise noise =
      measure_noise(cpu_backend(), reference.ref(), {first.ref(), second.ref()}, Grid({4}, {2}));
  CHECK(noise.cells == Doubles{5, 2});
}

TEST_CASE("noise along the reference is distinguished from noise across it") {
  const Whole reference({2}, {3, 4});
  const Whole along({2}, {6, 8});
  const Whole across({2}, {3 + 4, 4 - 3});
  const Grid grid({2}, {1});
  CHECK(measure_noise(cpu_backend(), reference.ref(), {along.ref()}, grid).coherence ==
        Doubles{1, 0});
  CHECK(measure_noise(cpu_backend(), reference.ref(), {across.ref()}, grid).coherence ==
        Doubles{0, 0});
  // The run that is the reference says nothing.
  const MeasuredNoise both = measure_noise(cpu_backend(), reference.ref(),
                                           {along.ref(), reference.ref(), across.ref()}, grid);
  CHECK(both.coherence == Doubles{std::sqrt(0.5), 0});
  CHECK(measure_noise(cpu_backend(), reference.ref(), {reference.ref()}, grid).coherence.empty());
  // Of parts: (9 along, 1 across) and (1, 1).
  const Whole four({4}, {1, 0, 1, 0});
  const Whole apart({4}, {4, 1, 2, 1});
  const Doubles parts =
      measure_noise(cpu_backend(), four.ref(), {apart.ref()}, Grid({4}, {2})).coherence;
  REQUIRE(parts.size() == 2);
  CHECK(parts[1] == Catch::Approx(std::sqrt((0.9 + 0.5) / 2)));
}

TEST_CASE("noise that is not finite is infinite") {
  const double infinity = std::numeric_limits<double>::infinity();
  const Whole reference({3}, {1, 2, 3});
  for (const double odd : {std::numeric_limits<double>::quiet_NaN(), -infinity}) {
    const Whole run({3}, {1, odd, 3});
    CHECK(measure_noise(cpu_backend(), reference.ref(), {run.ref()}, Grid({3}, {1})).norms ==
          Doubles{infinity});
  }
}

TEST_CASE("noise of several reads is that of the whole") {
  const std::uint64_t columns = kReadElements + 77;
  Doubles values(2 * columns, 1);
  const Whole reference({2, columns}, values);
  values[0] += 3;
  values[2 * columns - 1] -= 4;
  const Whole run({2, columns}, values);
  const MeasuredNoise noise =
      measure_noise(cpu_backend(), reference.ref(), {run.ref()}, Grid({2, columns}, {2, 1}));
  CHECK(noise.norms == Doubles{5});
  CHECK(noise.cells == Doubles{3, 4});
}

TEST_CASE("a run with a lost rank ends the measurement") {
  MemoryTrace source(make_mesh({{"tp", 2}}));
  trace::TensorEntry entry = make_entry("w", {4}, trace::Kind::kOutput, DType::kFloat64);
  entry.placements = {{"tp", trace::Shard{0, std::nullopt}}};
  source.put(entry, Doubles(4));
  source.lose_rank(1);
  const Whole reference({4}, Doubles(4));
  test::check_refused(
      [&] {
        measure_noise(cpu_backend(), reference.ref(), {{&source, &entry}}, Grid({4}, {1}));
      },
      {"rank lost"});
}

}  // namespace
}  // namespace ttrace::measure::noise_test
