// The logical values of synthetic tensors, computed for any box, with noise and planted faults.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "synth/fault.h"
#include "synth/random.h"
#include "synth/recipe.h"

namespace ttrace::synth {

// The elements of an index tensor of `count` ≤ 2^32 rows: every row once, in a shuffled order.
// Element j is (a·j + b) mod count, with a and b from words 0 and 1 of the stream "synth_index" of
// the dataset's path; a is increased until it is coprime to the count.
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

// Imitates rounding errors: every value times 1 + size·u, u uniform in [-1, 1).
struct Noise {
  double size = 0;
  bool in_epsilons = true;  // size is in units of the dtype's ε; else relative
  std::uint64_t seed = 0;
};

// The values of one tensor.
class Values {
 public:
  // `entry`: one tensor of `group`.
  Values(std::uint64_t seed, const Group& group, const trace::TensorEntry& entry,
         const Noise& noise, TensorFaults faults);

  // The values of `box` in row-major order, not yet rounded to the dtype. For floating-point
  // tensors.
  void fill(const tensor::Box& box, std::span<double> out) const;
  // The same for integers (0 … 99, or the rows of an index) and bool.
  void fill_integers(const tensor::Box& box, std::span<std::int64_t> out) const;

 private:
  void add_noise(const tensor::Box& box, std::span<double> out) const;
  void add_faults(const tensor::Box& box, std::span<double> out) const;

  const tensor::Shape shape_;
  const tensor::DType dtype_;
  double mean_;
  double std_dev_;
  double noise_;
  Stream values_;
  Stream noise_stream_;
  TensorFaults faults_;
  std::optional<IndexRows> index_;
};

}  // namespace ttrace::synth
