// Integers and booleans are equal or not: no rounding stands between.
#include <cstring>

#include "measure/cpu/cpu_backend.h"
#include "measure/measure.h"
#include "support/catch.h"
#include "support/memory_trace.h"

namespace ttrace::measure::measure_integers_test {
namespace {

using tensor::DType;
using test::make_entry;
using test::MemoryTrace;

template <typename T>
struct Stored {
  Stored(DType dtype, const std::vector<T>& values)
      : entry(make_entry("w", {values.size()}, trace::Kind::kIndex, dtype)) {
    std::vector<std::byte> bits(values.size() * sizeof(T));
    std::memcpy(bits.data(), values.data(), bits.size());
    source.put_bits(entry.key, 0, dtype, entry.shape, std::move(bits));
    source.edit().tensors.push_back(entry);
  }
  TensorRef ref() const { return {&source, &entry}; }

  MemoryTrace source;
  trace::TensorEntry entry;
};

template <typename R, typename C>
std::uint64_t unequal(const Stored<R>& reference, const Stored<C>& candidate) {
  const Measurement measured = measure(cpu_backend(), reference.ref(), candidate.ref(), {});
  CHECK(measured.total.elements == reference.entry.shape[0]);
  return measured.total.unequal;
}

constexpr std::int64_t kLarge = std::int64_t{1} << 53;

// Two ranks' terms of int64 or uint64.
template <typename T>
MemoryTrace terms_of(DType dtype, trace::Reduction reduction, const std::vector<T>& first,
                     const std::vector<T>& second) {
  MemoryTrace trace(test::make_mesh({{"tp", 2}}));
  trace::TensorEntry entry = make_entry("w", {first.size()}, trace::Kind::kOutput, dtype);
  entry.placements = {{"tp", trace::Partial{reduction}}};
  for (const auto& [rank, values] : {std::pair{0U, first}, {1U, second}}) {
    std::vector<std::byte> bits(values.size() * sizeof(T));
    std::memcpy(bits.data(), values.data(), bits.size());
    trace.put_bits(entry.key, rank, dtype, entry.shape, std::move(bits));
  }
  trace.edit().tensors.push_back(entry);
  return trace;
}

TEST_CASE("terms of integers are added without rounding, and sums wrap around") {
  const auto check = [](const MemoryTrace& terms, const auto& whole) {
    const TensorRef sum{&terms, &terms.manifest().tensors.front()};
    CHECK(measure(cpu_backend(), whole.ref(), sum, {}).total.unequal == 0);
  };
  const std::vector<std::int64_t> first{kLarge, -7, INT64_MAX};
  const std::vector<std::int64_t> second{1, 3, 1};
  check(terms_of(DType::kInt64, trace::Reduction::kSum, first, second),
        Stored<std::int64_t>(DType::kInt64, {kLarge + 1, -4, INT64_MIN}));
  check(terms_of(DType::kInt64, trace::Reduction::kMax, first, second),
        Stored<std::int64_t>(DType::kInt64, {kLarge, 3, INT64_MAX}));
  check(terms_of<std::uint64_t>(DType::kUInt64, trace::Reduction::kMax, {UINT64_MAX, 2}, {1, 3}),
        Stored<std::uint64_t>(DType::kUInt64, {UINT64_MAX, 3}));
}

TEST_CASE("integers that round to the same binary64 number are distinguished") {
  const Stored<std::int64_t> reference(DType::kInt64, {kLarge, -kLarge, 5});
  CHECK(unequal(reference, reference) == 0);
  CHECK(unequal(reference, Stored<std::int64_t>(DType::kInt64, {kLarge + 1, -kLarge - 1, 5})) == 2);
}

TEST_CASE("the largest difference of integers and its place are exact") {
  const auto largest = [](const auto& reference, const auto& candidate) {
    return measure(cpu_backend(), reference.ref(), candidate.ref(), {}).total.largest;
  };
  const Stored<std::int64_t> reference(DType::kInt64, {kLarge, -kLarge, 5, INT64_MIN});
  const auto one =
      largest(reference, Stored<std::int64_t>(DType::kInt64, {kLarge, -kLarge - 1, 5, INT64_MIN}));
  REQUIRE(one);
  CHECK(one->difference == 1);
  CHECK(one->at == tensor::Shape{1});
  CHECK(difference_norm(
            measure(cpu_backend(), reference.ref(),
                    Stored<std::int64_t>(DType::kInt64, {kLarge + 1, -kLarge, 5, INT64_MIN}).ref(),
                    {})
                .total) == 1);
  // Rounded, the first would be as large as the second.
  const auto two = largest(
      reference, Stored<std::int64_t>(DType::kInt64, {kLarge + 1, -kLarge, 7, INT64_MIN + 3}));
  REQUIRE(two);
  CHECK(two->difference == 3);
  CHECK(two->at == tensor::Shape{3});
  const auto widest = largest(Stored<std::int64_t>(DType::kInt64, {1, INT64_MIN}),
                              Stored<std::uint64_t>(DType::kUInt64, {1, UINT64_MAX}));
  REQUIRE(widest);
  CHECK(widest->difference == 0x1p64 + 0x1p63);
  CHECK(widest->at == tensor::Shape{1});
}

TEST_CASE("unsigned integers at the top are distinguished") {
  const Stored<std::uint64_t> reference(DType::kUInt64, {UINT64_MAX, std::uint64_t{1} << 63});
  CHECK(unequal(reference, reference) == 0);
  CHECK(unequal(reference, Stored<std::uint64_t>(DType::kUInt64,
                                                 {UINT64_MAX - 1, std::uint64_t{1} << 63})) == 1);
}

TEST_CASE("the same bits of another sign are another number") {
  const Stored<std::uint64_t> top(DType::kUInt64, {UINT64_MAX, 7});
  const Stored<std::int64_t> minus(DType::kInt64, {-1, 7});
  CHECK(unequal(top, minus) == 1);
  CHECK(unequal(minus, top) == 1);
  CHECK(unequal(Stored<std::int8_t>(DType::kInt8, {-1, 7}), top) == 1);
}

TEST_CASE("integers of different widths are equal as numbers") {
  const Stored<std::int32_t> narrow(DType::kInt32, {-3, 0, 100});
  const Stored<std::int64_t> wide(DType::kInt64, {-3, 0, 100});
  CHECK(unequal(narrow, wide) == 0);
  CHECK(unequal(wide, Stored<std::int8_t>(DType::kInt8, {-3, 1, 100})) == 1);
  CHECK(unequal(Stored<std::uint8_t>(DType::kUInt8, {255}),
                Stored<std::int8_t>(DType::kInt8, {-1})) == 1);
}

TEST_CASE("booleans are equal if both are true") {
  const Stored<std::uint8_t> reference(DType::kBool, {0, 1, 1});
  CHECK(unequal(reference, Stored<std::uint8_t>(DType::kBool, {0, 1, 2})) == 0);
  CHECK(unequal(reference, Stored<std::uint8_t>(DType::kBool, {1, 1, 0})) == 2);
}

TEST_CASE("the sums of integers serve as evidence") {
  const Stored<std::int32_t> reference(DType::kInt32, {1, 2, 3});
  const Stored<std::int32_t> candidate(DType::kInt32, {1, 5, 7});
  const Measurement measured = measure(cpu_backend(), reference.ref(), candidate.ref(), {});
  CHECK(measured.total.unequal == 2);
  CHECK(difference_norm(measured.total) == 5);
  CHECK(measured.total.largest->at == tensor::Shape{2});
}

}  // namespace
}  // namespace ttrace::measure::measure_integers_test
