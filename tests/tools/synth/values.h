// The numbers of one tensor of a synthetic trace, as any rank stores any box of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tensor/box.h"
#include "trace/manifest.h"

namespace ttrace::synth {

// What all tensors of a trace have in common.
struct Settings {
  std::uint64_t seed = 0;
  // Imitates rounding errors: every value times 1 + noise·ε·u before it is rounded, u uniform in
  // [-1, 1), ε that of the tensor's dtype.
  double noise = 0;
  std::uint64_t noise_seed = 1;
};

// Which term a rank has of a tensor that is a sum over ranks.
struct Term {
  std::uint64_t number = 0;
  std::uint64_t count = 1;
  std::uint64_t summed = 1;  // how many make up the value; 1 (means, maxima): each is the value
};

// A number depends only on the seed, the path of the tensor's dataset and the element's place in
// the whole tensor: a normal number, or an integer below 100 (bool: below 2), of the stream "synth"
// of seed and path. So every rank makes its shard alone, and all layouts agree to the bit.
class Values {
 public:
  // In the trace of an optimizer's step (manifest.optimizer), param_after_step has what AdamW makes
  // of the others. The manifest must outlive this.
  Values(const trace::Manifest& manifest, const trace::TensorEntry& entry,
         const Settings& settings);

  // Writes the stored bits that a rank with this term has of `box`, which is a box of the whole
  // tensor. May be called from several threads.
  void store(const tensor::Box& box, const Term& term, std::span<std::byte> out) const;

 private:
  // The words of a stream of this tensor, one for each element of the box.
  std::vector<std::uint32_t> words(std::string_view purpose, std::uint64_t seed,
                                   const tensor::Box& box) const;
  std::vector<double> numbers(const tensor::Box& box) const;
  std::vector<double> updated(const tensor::Box& box) const;
  void split(const tensor::Box& box, const Term& term, std::vector<double>& values) const;

  tensor::Shape shape_;
  tensor::DType dtype_;
  double scale_;
  std::string path_;
  Settings settings_;
  double std_dev_ = 1;
  bool squared_ = false;
  const trace::OptimizerGroup* optimizer_ = nullptr;
  std::vector<Values> updated_from_;  // parameter, gradient, exp_avg, exp_avg_sq; or none
};

}  // namespace ttrace::synth
