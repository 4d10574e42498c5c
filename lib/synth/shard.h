// The bytes of one rank's dataset, any slab of them on its own.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "layout/holding.h"
#include "synth/terms.h"
#include "synth/values.h"

namespace ttrace::synth {

// Makes slabs of the dataset of `held` (which must outlive it): logical values, rounded to the
// dtype as value / scale, split into terms where the tensor is partial. May be used by several
// threads at once.
class Shard {
 public:
  Shard(const layout::Holding& held, const trace::TensorEntry& entry, Values values, Terms terms,
        bool dropped);

  tensor::DType dtype() const { return dtype_; }

  // The stored bits of `slab` of the dataset.
  void make(const tensor::Box& slab, std::span<std::byte> out) const;

 private:
  void make_local(const tensor::Box& local, std::span<std::byte> out) const;
  void make_global(const tensor::Box& global, std::span<std::byte> out) const;

  const layout::Holding* held_;
  tensor::DType dtype_;
  double scale_;
  Values values_;
  Terms terms_;
  bool dropped_;  // this rank's part of the sum is 0
};

}  // namespace ttrace::synth
