// The dataset of one rank: computes its values for any box, and chooses the boxes in which it is
// written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "layout/local_layout.h"
#include "synth/random.h"
#include "synth/values.h"
#include "tensor/box.h"
#include "tensor/dtype.h"
#include "trace/manifest.h"
#include "trace/sink.h"

namespace ttrace::synth {

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

// Computes the stored bits of one rank's dataset: logical values, divided by the scale, rounded to
// the dtype, and split into terms if the tensor is partial. Thread-safe. `held` must outlive it.
class RankDataset {
 public:
  RankDataset(const layout::LocalLayout& held, const trace::TensorEntry& entry, Values values,
              Terms terms, bool dropped);

  tensor::DType dtype() const { return dtype_; }

  // Writes the stored bits of `box`, which is in coordinates of the dataset.
  void make(const tensor::Box& box, std::span<std::byte> out) const;

 private:
  void make_local(const tensor::Box& local, std::span<std::byte> out) const;
  void make_global(const tensor::Box& global, std::span<std::byte> out) const;

  const layout::LocalLayout* held_;
  tensor::DType dtype_;
  double scale_;
  Values values_;
  Terms terms_;
  bool dropped_;  // this rank's term of the sum is 0
};

// The storage of a dataset of `shape`. Chunks are no larger than the dataset; if a filter needs
// chunks and none are given, they are whole rows of about 1 MiB. There are none if neither chunks
// nor a filter is wanted, or if the dataset is empty or a scalar.
trace::Storage storage_for(const trace::Storage& wanted, const tensor::Shape& shape,
                           tensor::DType dtype);

// Visits boxes that together cover `shape`, each of at most `limit` elements or one chunk. No chunk
// is cut in two, so that each is compressed once.
void for_each_write_box(const tensor::Shape& shape, const trace::Storage& storage,
                        std::uint64_t limit, const std::function<void(const tensor::Box&)>& visit);

}  // namespace ttrace::synth
