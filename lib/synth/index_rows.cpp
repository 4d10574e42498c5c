#include "synth/index_rows.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "synth/stream.h"

namespace ttrace::synth {

IndexRows::IndexRows(std::uint64_t seed, std::string_view path, std::uint64_t count)
    : count_(std::max<std::uint64_t>(count, 1)) {
  std::array<std::uint32_t, 2> words{};
  Stream::of_synthetic(seed, "synth_index", path).words(0, words);
  factor_ = std::max<std::uint64_t>(words[0] % count_, 1);
  while (std::gcd(factor_, count_) != 1) ++factor_;
  offset_ = words[1] % count_;
}

}  // namespace ttrace::synth
