// The loop of add_exponentials(). Compiled once per instruction set: TTRACE_EXPONENTIALS names it.
#include <cstdint>
#include <cstring>

#include "base/functions/exponential.h"
#include "specification/primitives/exponential.h"

namespace ttrace::specification {
namespace {

#if defined(__AVX512F__)
constexpr std::uint64_t kWidth = 8;
#elif defined(__AVX2__)
constexpr std::uint64_t kWidth = 4;
#else
constexpr std::uint64_t kWidth = 2;
#endif
using Numbers [[gnu::vector_size(kWidth * sizeof(double))]] = double;
using Integers [[gnu::vector_size(kWidth * sizeof(double))]] = std::int64_t;

double add_all_exponentials(const double* x, double shift, double* out, std::uint64_t n) {
  constexpr std::uint64_t kSums = 8;
  Numbers sums[kSums / kWidth] = {};
  std::uint64_t i = 0;
  for (; i < n; i += kSums) {
    const std::uint64_t held = n - i < kSums ? n - i : kSums;
    double block[kSums] = {};
    std::memcpy(block, x + i, held * sizeof(double));
    for (std::uint64_t v = 0; v < kSums / kWidth; ++v) {
      Numbers part;
      std::memcpy(&part, block + v * kWidth, sizeof part);
      part = base::exponential_of<Numbers, Integers>(part - shift);
      std::memcpy(block + v * kWidth, &part, sizeof part);
    }
    if (out != nullptr) std::memcpy(out + i, block, held * sizeof(double));
    for (std::uint64_t s = held; s < kSums; ++s) block[s] = 0;
    for (std::uint64_t v = 0; v < kSums / kWidth; ++v) {
      Numbers part;
      std::memcpy(&part, block + v * kWidth, sizeof part);
      sums[v] += part;
    }
  }
  double all[kSums];
  std::memcpy(all, sums, sizeof all);
  double total = 0;
  for (const double sum : all) total += sum;
  return total;
}

}  // namespace

const ExponentialKernel TTRACE_EXPONENTIALS = add_all_exponentials;

}  // namespace ttrace::specification
