// What each rank holds of a tensor that is a sum, mean or maximum over ranks.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "synth/random.h"
#include "trace/manifest.h"

namespace ttrace::synth {

// One rank's term. The stored value of the whole is an integer multiple m of the spacing of its
// dtype, and terms are integer multiples of it too, so that a sum is exact:
//   term t of T over S summed coordinates = ⌊(m + t mod S) / S⌋ + r(t) - r(t+1 mod T)
// with r random and small enough for every term to be a number of the dtype (0 for a mean whose
// value is near the end of its binade). Of a maximum one random term is the value itself, the
// others are not above it.
class Terms {
 public:
  // `coordinates`: of the rank; `path`: of the dataset.
  Terms(std::uint64_t seed, const trace::TensorEntry& entry, const trace::Mesh& mesh,
        const std::vector<std::uint64_t>& coordinates, const std::string& path);

  // Whether the tensor has more than one term.
  bool any() const { return count_ > 1; }

  // Replaces the stored values of `box`, already numbers of the dtype, by this rank's term.
  void split(const tensor::Box& box, std::span<double> values) const;

 private:
  double part(double whole, std::int64_t here, std::int64_t next) const;

  tensor::Shape shape_;
  tensor::DType dtype_;
  std::uint64_t count_ = 1;   // T
  std::uint64_t summed_ = 1;  // S
  std::uint64_t number_ = 0;  // t
  bool maximum_ = false;
  Stream here_{0};
  Stream next_{0};
};

}  // namespace ttrace::synth
