// The values of synthetic tensors, computed for any box: logical ones, with noise and planted
// faults, and the terms that ranks have of them.
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
struct SyntheticNoise {
  double size = 0;
  bool in_epsilons = true;  // size is in units of the dtype's ε; else relative
  std::uint64_t seed = 0;
};

// The values of one tensor.
class Values {
 public:
  // `entry`: one tensor of `group`, which is one of `recipe`.
  Values(const Recipe& recipe, const Group& group, const trace::TensorEntry& entry,
         const SyntheticNoise& noise, TensorFaults faults);

  // The values of `box` in row-major order, not yet rounded to the dtype. For floating-point
  // tensors.
  void fill(const tensor::Box& box, std::span<double> out) const;
  // The same for integers (0 … 99, or the rows of an index) and bool.
  void fill_integers(const tensor::Box& box, std::span<std::int64_t> out) const;

 private:
  // The values that a step of AdamW makes of others, computed in single precision.
  void fill_updated(const tensor::Box& box, std::span<double> out) const;
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
  bool squared_ = false;
  trace::OptimizerGroup optimizer_;
  std::vector<Values> updated_from_;  // parameter, gradient, exp_avg, exp_avg_sq; or none
};

// One rank's term of a tensor that is a sum, mean or maximum over ranks. The stored value of the
// whole is an integer multiple m of the spacing of its dtype, and so is every term, so that sums
// are exact:
//   term t of T over S summed coordinates = ⌊(m + t mod S) / S⌋ + r(t) - r(t+1 mod T)
// with r random and small enough for every term to be a number of the dtype (0 for a mean whose
// value is near the end of its binade). For a maximum, one random term is the value itself, and the
// others are not larger.
class Terms {
 public:
  // `coordinates` of the rank in the mesh, `path` of the dataset.
  Terms(std::uint64_t seed, const trace::TensorEntry& entry, const trace::Mesh& mesh,
        const std::vector<std::uint64_t>& coordinates, const std::string& path);

  // Whether the tensor has more than one term.
  bool any() const { return count_ > 1; }

  // Replaces the values of `box`, which must be numbers of the dtype, by this rank's terms.
  void split(const tensor::Box& box, std::span<double> values) const;

 private:
  double term(double whole, std::int64_t here, std::int64_t next) const;

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
