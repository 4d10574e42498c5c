// Replicas that should be equal: what is found different, how far, and which ranks agree.
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "measure/cpu/cpu_backend.h"
#include "measure/measure.h"
#include "support/catch.h"
#include "support/memory_trace.h"

namespace ttrace::measure::measure_replicas_test {
namespace {

using tensor::DType;
using test::make_entry;
using test::make_mesh;
using test::MemoryTrace;
using Classes = std::vector<std::vector<std::uint64_t>>;
using Doubles = std::vector<double>;

template <typename T>
std::vector<std::byte> bits_of(const std::vector<T>& values) {
  std::vector<std::byte> bits(values.size() * sizeof(T));
  std::memcpy(bits.data(), values.data(), bits.size());
  return bits;
}

// Measures replicas of one tensor, stored as given, against the first of them.
template <typename T>
Measurement measure_replicas(DType dtype, const std::vector<std::vector<T>>& replicas,
                             double scale = 1) {
  MemoryTrace source(make_mesh({{"dp", replicas.size()}}));
  MemoryTrace single;
  trace::TensorEntry entry = make_entry("w", {replicas[0].size()}, trace::Kind::kOutput, dtype);
  entry.scale = scale;
  single.put_bits(entry.key, 0, dtype, entry.shape, bits_of(replicas[0]));
  for (std::uint64_t rank = 0; rank < replicas.size(); ++rank) {
    source.put_bits(entry.key, rank, dtype, entry.shape, bits_of(replicas[rank]));
  }
  return measure(cpu_backend(), {&single, &entry}, {&source, &entry}, {});
}

TEST_CASE("equal replicas agree") {
  const Measurement measured = measure_replicas<double>(DType::kFloat64, {{1, 2}, {1, 2}, {1, 2}});
  CHECK(measured.has_replicas);
  CHECK_FALSE(measured.replicas_differ);
  CHECK(measured.replicas->distance_norm == 0);
  CHECK(measured.replicas->classes.empty());
}

TEST_CASE("different replicas are sorted into classes with the largest distance") {
  const Measurement measured =
      measure_replicas<double>(DType::kFloat64, {{0, 0}, {3, 4}, {0, 0}, {3, 4}, {0, 1}});
  CHECK(measured.replicas_differ);
  CHECK(measured.replicas->distance_norm == 5);
  CHECK(measured.replicas->classes == Classes{{0, 2}, {1, 3}, {4}});
  // The value compared is the first copy's.
  CHECK(measured.total.unequal == 0);
}

TEST_CASE("the distance of replicas is that of the logical values") {
  const Measurement measured = measure_replicas<float>(DType::kFloat32, {{1, 1}, {1, 3}}, 0.25);
  CHECK(measured.replicas->distance_norm == 0.5);
}

TEST_CASE("distances of a copy add up over the blocks it is cut into") {
  MemoryTrace source(make_mesh({{"dp", 2}, {"tp", 2}}));
  trace::TensorEntry entry = make_entry("w", {4}, trace::Kind::kOutput, DType::kFloat64);
  entry.placements = {{"tp", trace::Shard{0, std::nullopt}}};
  source.put(entry, {0, 0, 0, 0});
  const auto check = [&](double first, double second, const Classes& classes) {
    source.put_shard(entry, 2, {0, first});   // dp 1, tp 0
    source.put_shard(entry, 3, {second, 0});  // dp 1, tp 1
    const Measurement measured = measure(cpu_backend(), {&source, &entry}, {&source, &entry}, {});
    CHECK(measured.replicas_differ);
    CHECK(measured.replicas->distance_norm == 5);
    CHECK(measured.replicas->classes == classes);  // of the block furthest apart
  };
  check(3, 4, {{1}, {3}});
  check(4, 3, {{0}, {2}});
}

TEST_CASE("classes hold over all reads of a tensor") {
  const std::size_t size = (std::size_t{1} << 18) + 10;
  std::vector<Doubles> replicas(4, Doubles(size, 1.0));
  replicas[1][5] = replicas[2][5] = 2;  // first box: 1 and 2 differ from 0 and agree
  replicas[2][size - 1] = 3;            // second box: now 2 is alone
  const Measurement measured = measure_replicas<double>(DType::kFloat64, replicas);
  CHECK(measured.replicas->classes == Classes{{0, 3}, {1}, {2}});
  CHECK(measured.replicas->distance_norm == Catch::Approx(std::sqrt(5)).epsilon(1e-15));
}

TEST_CASE("zeros of both signs are no difference between replicas") {
  CHECK_FALSE(measure_replicas<double>(DType::kFloat64, {{0.0}, {-0.0}}).replicas_differ);
  CHECK_FALSE(measure_replicas<float>(DType::kFloat32, {{-0.0F}, {0.0F}}).replicas_differ);
  CHECK_FALSE(
      measure_replicas<std::uint16_t>(DType::kBFloat16, {{0x0000}, {0x8000}}).replicas_differ);
}

TEST_CASE("NaNs of different payload are no difference between replicas") {
  CHECK_FALSE(
      measure_replicas<std::uint64_t>(DType::kFloat64, {{0x7ff8000000000000}, {0xfff8000000000123}})
          .replicas_differ);
  CHECK_FALSE(
      measure_replicas<std::uint16_t>(DType::kFloat16, {{0x7e00}, {0x7e01}}).replicas_differ);
}

TEST_CASE("a zero of another sign does not hide a real difference") {
  const Measurement measured =
      measure_replicas<double>(DType::kFloat64, {{0.0, 1}, {-0.0, 1}, {-0.0, 2}});
  CHECK(measured.replicas_differ);
  CHECK(measured.replicas->classes == Classes{{0, 1}, {2}});
  CHECK(measured.replicas->distance_norm == 1);
}

TEST_CASE("a copy that is not finite where another is stands infinitely far away") {
  const double infinity = std::numeric_limits<double>::infinity();
  for (const double odd : {std::nan(""), infinity, -infinity}) {
    const Measurement measured = measure_replicas<double>(DType::kFloat64, {{1, 2}, {1, odd}});
    CHECK(measured.replicas_differ);
    CHECK(measured.replicas->distance_norm == infinity);
    CHECK(measured.replicas->classes == Classes{{0}, {1}});
  }
}

TEST_CASE("replicas differ also where the squares of their difference underflow") {
  const Measurement measured =
      measure_replicas<double>(DType::kFloat64, {{1e-200}, {3e-200}, {1e-200}});
  CHECK(measured.replicas_differ);
  CHECK(measured.replicas->distance_norm >= 2e-200);
  CHECK(measured.replicas->classes == Classes{{0, 2}, {1}});
}

TEST_CASE("integer replicas differ exactly and by their true distance") {
  const Measurement near = measure_replicas<std::int64_t>(DType::kInt64, {{7, 1}, {7, 4}});
  CHECK(near.replicas_differ);
  CHECK(near.replicas->distance_norm == 3);
  const std::int64_t large = std::int64_t{1} << 53;
  const Measurement far = measure_replicas<std::int64_t>(DType::kInt64, {{large}, {large + 1}});
  CHECK(far.replicas_differ);
  CHECK(far.replicas->distance_norm > 0);
  CHECK(far.replicas->classes == Classes{{0}, {1}});
  const Measurement top =
      measure_replicas<std::uint64_t>(DType::kUInt64, {{UINT64_MAX}, {UINT64_MAX - 1}});
  CHECK(top.replicas_differ);
}

}  // namespace
}  // namespace ttrace::measure::measure_replicas_test
