// The numbers in index tensors: every row once, in an order that looks dealt.
#pragma once

#include <cstdint>
#include <string_view>

namespace ttrace::synth {

// Element j of an index of `count` ≤ 2^32 rows is (a·j + b) mod count, with a and b from words 0
// and 1 of the stream "synth_index" of the dataset's path; a is raised until it has no factor in
// common with the count.
class IndexRows {
 public:
  IndexRows(std::uint64_t seed, std::string_view path, std::uint64_t count);

  std::int64_t at(std::uint64_t element) const {
    return static_cast<std::int64_t>((factor_ * element + offset_) % count_);
  }

 private:
  std::uint64_t count_;
  std::uint64_t factor_ = 1;
  std::uint64_t offset_ = 0;
};

}  // namespace ttrace::synth
