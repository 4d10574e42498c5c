// Random cases that repeat: every case has a seed, which a failing test prints. TTRACE_SEED=n in
// the environment starts at seed n: a failing case is the first one again, and a number never used
// gives cases never tried.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <random>
#include <string>
#include <vector>

#include "support/catch.h"
#include "tensor/box.h"

namespace ttrace::test {

class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}

  std::uint64_t bits() { return engine_(); }
  // Uniform in [low, high].
  std::uint64_t between(std::uint64_t low, std::uint64_t high) {
    return low + engine_() % (high - low + 1);
  }
  bool chance(double probability) { return unit() < probability; }
  // Uniform in [0, 1).
  double unit() { return static_cast<double>(engine_() >> 11) * 0x1p-53; }
  // Uniform in [-1, 1).
  double symmetric() { return 2 * unit() - 1; }

  std::vector<double> values(std::size_t count) {
    std::vector<double> drawn(count);
    for (double& value : drawn) value = symmetric();
    return drawn;
  }
  tensor::Shape shape(std::size_t most_dimensions, std::uint64_t least, std::uint64_t most) {
    tensor::Shape drawn(between(0, most_dimensions));
    for (std::uint64_t& extent : drawn) extent = between(least, most);
    return drawn;
  }
  // A box within `frame`, perhaps empty.
  tensor::Box box_in(const tensor::Box& frame) {
    tensor::Box drawn = frame;
    for (std::size_t d = 0; d < frame.extent.size(); ++d) {
      const std::uint64_t start = between(0, frame.extent[d]);
      drawn.origin[d] += start;
      drawn.extent[d] = between(0, frame.extent[d] - start);
    }
    return drawn;
  }

 private:
  std::mt19937_64 engine_;
};

// The first seed of every property; told once, so that the log of any run says how to repeat it.
inline std::uint64_t base_seed() {
  static const std::uint64_t base = [] {
    const char* given = std::getenv("TTRACE_SEED");
    const std::uint64_t seed = given == nullptr ? 1 : std::stoull(given);
    std::cout << "random cases start at seed " << seed << " (TTRACE_SEED)" << std::endl;
    return seed;
  }();
  return base;
}

// Runs check(random) for `count` seeds.
template <typename Check>
void for_seeds(std::uint64_t count, Check check) {
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t seed = base_seed() + i;
    CAPTURE(seed);
    Random random(seed);
    check(random);
  }
}

}  // namespace ttrace::test
