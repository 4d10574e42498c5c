#include "measure/truth_errors.h"

#include <cmath>
#include <limits>

#include "base/error.h"
#include "measure/cpu/cpu_backend.h"
#include "measure/sections.h"
#include "support/catch.h"
#include "support/memory_trace.h"

namespace ttrace::measure {
namespace {

using tensor::DType;
using test::make_entry;
using test::MemoryTrace;
using Doubles = std::vector<double>;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// A whole tensor in a trace of one rank.
struct Whole {
  explicit Whole(const Doubles& values, DType dtype = DType::kFloat64)
      : entry(make_entry("w", {values.size()}, trace::Kind::kOutput, dtype)) {
    source.put(entry, values);
  }
  TensorRef ref() const { return {&source, &entry}; }

  MemoryTrace source;
  trace::TensorEntry entry;
};

TruthErrors errors_of(const Doubles& truth, const Doubles& reference, const Doubles& candidate) {
  const Whole t(truth);
  const Whole r(reference);
  const Whole c(candidate);
  return measure_truth(cpu_backend(), t.ref(), r.ref(), c.ref());
}

TEST_CASE("errors of both sides are distances from the truth") {
  const TruthErrors errors = errors_of({1, 2, 2}, {1, 2, 2.5}, {4, 2, 6});
  CHECK(errors.reference_error_norm == 0.5);
  CHECK(errors.candidate_error_norm == 5);
  CHECK(errors.truth_norm == 3);
  CHECK(errors.elements == 3);
  CHECK(errors.left_out == 0);
  CHECK(errors.bytes_read == 9 * sizeof(double));
  CHECK(error_ratio(errors) == std::optional(10.0));
}

TEST_CASE("a truth in another element type is read as it is") {
  const Whole truth({1, 2, 2}, DType::kFloat64);
  const Whole reference({1, 2, 2.5}, DType::kFloat32);
  const Whole candidate({1, 2, 3}, DType::kFloat32);
  CHECK(error_ratio(measure_truth(cpu_backend(), truth.ref(), reference.ref(), candidate.ref())) ==
        std::optional(2.0));
}

TEST_CASE("a reference without error has no ratio but infinity") {
  CHECK(error_ratio(errors_of({1, 2}, {1, 2}, {1, 3})) == std::optional(kInfinity));
  CHECK_FALSE(error_ratio(errors_of({1, 2}, {1, 2}, {1, 2})));
  CHECK(error_ratio(errors_of({1, 2}, {1, 3}, {1, 2})) == std::optional(0.0));
}

TEST_CASE("what is not finite in any of the three is left out of all sums") {
  const TruthErrors errors =
      errors_of({1, kNan, 3, 4, 5}, {2, 2, kInfinity, 4, 5}, {1, 2, 3, -kInfinity, 7});
  CHECK(errors.left_out == 3);
  CHECK(errors.elements == 2);
  CHECK(errors.reference_error_norm == 1);
  CHECK(errors.candidate_error_norm == 2);
  CHECK(errors.truth_norm == std::sqrt(26));
  const TruthErrors nothing = errors_of({kNan}, {1}, {1});
  CHECK(nothing.elements == 0);
  CHECK_FALSE(error_ratio(nothing));
}

TEST_CASE("squares that overflow have no ratio, squares that underflow do") {
  CHECK_FALSE(error_ratio(errors_of({0}, {1e200}, {-1e200})));
  CHECK(error_ratio(errors_of({0}, {1e-200}, {3e-200})) == std::optional(3.0));
}

TEST_CASE("a truth of several reads is that of the whole, in any layout") {
  const std::uint64_t count = kReadElements + 4321;
  Doubles truth(count);
  Doubles reference(count);
  Doubles candidate(count);
  for (std::size_t i = 0; i < count; ++i) {
    truth[i] = static_cast<double>(i % 7);
    reference[i] = truth[i] + 1;
    candidate[i] = truth[i] - 2;
  }
  MemoryTrace sharded(test::make_mesh({{"tp", 3}}));
  trace::TensorEntry entry = make_entry("w", {count}, trace::Kind::kOutput, DType::kFloat64);
  entry.placements = {{"tp", trace::Shard{0, std::nullopt}}};
  sharded.put(entry, truth);
  const Whole r(reference);
  const Whole c(candidate);
  const TruthErrors errors = measure_truth(cpu_backend(), {&sharded, &entry}, r.ref(), c.ref());
  CHECK(errors.reference_error_norm == std::sqrt(static_cast<double>(count)));
  CHECK(error_ratio(errors) == std::optional(2.0));
}

}  // namespace
}  // namespace ttrace::measure
