// The screen leaves out no block that could be the nearest or the second nearest.
#include "localize/causes/near_blocks.h"

#include <algorithm>
#include <limits>
#include <random>

#include "measure/cpu/cpu_backend.h"
#include "measure/products.h"
#include "property/random.h"
#include "support/catch.h"

namespace ttrace::localize::near_blocks_test {
namespace {

using Slices = std::vector<SliceSums>;

double distance(const Slices& slices, std::uint64_t count, std::size_t of_c, std::size_t of_r) {
  const std::uint64_t length = slices.size() / count;
  double sum = 0;
  for (std::uint64_t t = 0; t < length; ++t) {
    sum +=
        squared_distance(slices[of_c * length + t].candidate, slices[of_r * length + t].reference);
  }
  return sum;
}

struct Nearest {
  std::size_t at = 0;
  double best = std::numeric_limits<double>::infinity();
  double second = best;

  void add(std::size_t j, double distance) {
    if (distance < best) {
      second = best;
      best = distance;
      at = j;
    } else {
      second = std::min(second, distance);
    }
  }
  bool operator==(const Nearest&) const = default;
};

// Checks all blocks, and returns how many pairs of blocks the screen let through.
std::size_t check(const Slices& slices, std::uint64_t count, const measure::Backend* backend) {
  const auto near = NearBlocks(slices, backend).find(count);
  REQUIRE(near.size() == count);
  std::size_t pairs = 0;
  bool same = true;
  for (std::size_t i = 0; i < count; ++i) {
    Nearest of_all;
    Nearest of_near;
    for (std::size_t j = 0; j < count; ++j) of_all.add(j, distance(slices, count, i, j));
    for (const std::size_t j : near[i]) of_near.add(j, distance(slices, count, i, j));
    same = same && of_all == of_near && std::is_sorted(near[i].begin(), near[i].end()) &&
           std::binary_search(near[i].begin(), near[i].end(), i);
    pairs += near[i].size();
  }
  CHECK(same);
  return pairs;
}

Slices random_slices(std::size_t count, std::mt19937_64& engine, double size) {
  Slices slices(count);
  for (SliceSums& slice : slices) {
    for (double& number : slice.reference) {
      number = size * (static_cast<double>(engine() >> 11) * 0x1p-52 - 1);
    }
  }
  for (std::size_t i = 0; i < count; ++i) slices[i].candidate = slices[i].reference;
  return slices;
}

// Sums in descending order of k, and nothing else: as far from the CPU's as an estimate may be.
class OtherOrder : public measure::Backend, public measure::ProductBackend {
 public:
  std::string name() const override { return "other"; }
  std::string instruction_set() const override { return {}; }
  std::unique_ptr<measure::Batch> new_batch() const override { return nullptr; }
  const measure::ProductBackend* products() const override { return this; }
  bool pays(std::uint64_t, std::uint64_t, std::uint64_t, unsigned) const override { return true; }
  bool multiply(const measure::Product&) const override { return false; }
  bool estimate(const measure::Product& p) const override {
    for (std::uint64_t i = 0; i < p.m; ++i) {
      for (std::uint64_t j = 0; j < p.n; ++j) {
        double sum = 0;
        for (std::uint64_t k = p.k; k-- > 0;) {
          sum = __builtin_fma(*p.a.at(i, k).data, *p.b.at(k, j).data, sum);
        }
        p.c[i * p.n + j] = sum;
      }
    }
    ++estimates;
    return true;
  }
  mutable std::size_t estimates = 0;
};

TEST_CASE("blocks in another order are found with few of all pairs looked at") {
  std::mt19937_64 engine(test::base_seed());
  const OtherOrder other;
  for (const std::uint64_t count : {2, 8, 16, 64}) {
    CAPTURE(count);
    Slices slices = random_slices(3 * 64, engine, 1);
    std::rotate(slices.begin(), slices.begin() + 3 * 64 / 4, slices.end());
    for (std::size_t i = 0; i < slices.size(); ++i) {
      slices[i].candidate = slices[(i + 6) % slices.size()].reference;
    }
    const std::size_t pairs = check(slices, count, nullptr);
    CHECK(pairs <= (count <= 4 ? count * count : 3 * count));
    CHECK(check(slices, count, &other) == pairs);
  }
  CHECK(other.estimates == 3);
}

TEST_CASE("blocks that are equal, zero, huge or no numbers are all looked at where they must be") {
  std::mt19937_64 engine(test::base_seed());
  constexpr double kInfinite = std::numeric_limits<double>::infinity();
  for (const measure::Backend* backend :
       {static_cast<const measure::Backend*>(nullptr), &measure::cpu_backend()}) {
    CHECK(check(Slices(64), 32, backend) == 32 * 32);
    Slices equal = random_slices(64, engine, 1);
    for (SliceSums& slice : equal) {
      slice.reference = equal[0].reference;
      slice.candidate = equal[0].reference;
    }
    CHECK(check(equal, 32, backend) == 32 * 32);
    for (const double size : {1e-160, 1e-300, 1e150, 1e160, 1e300}) {
      CAPTURE(size);
      check(random_slices(64, engine, size), 16, backend);
    }
    for (const double special : {kInfinite, -kInfinite, std::nan("")}) {
      Slices some = random_slices(64, engine, 1);
      some[5].reference[3] = special;
      some[40].candidate[0] = special;
      check(some, 64, backend);
    }
  }
}

TEST_CASE("nearly equal blocks that only rounding tells apart are looked at") {
  std::mt19937_64 engine(test::base_seed());
  const OtherOrder other;
  for (int round = 0; round < 20; ++round) {
    Slices slices = random_slices(128, engine, 1);
    for (SliceSums& slice : slices) slice.reference = slices[0].reference;
    for (SliceSums& slice : slices) {
      slice.candidate = slices[0].reference;
      slice.reference[engine() % kSketchSize] *= 1 + 0x1p-50 * static_cast<double>(engine() % 5);
    }
    check(slices, 32, nullptr);
    check(slices, 32, &other);
  }
}

}  // namespace
}  // namespace ttrace::localize::near_blocks_test
