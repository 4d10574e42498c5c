// What each rank holds of a recipe's tensors: the local layout, which all tensors of a group share;
// the stored values of any box; and the boxes in which a dataset is written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "layout/plan.h"
#include "synth/values.h"
#include "trace/sink.h"

namespace ttrace::synth {

// The local layout of the group's tensors on the rank at `coordinates` of the group's mesh, or
// nothing if the rank holds none of them. Ignores `stages`, which determine the tensors, not their
// layout.
std::optional<layout::LocalLayout> local_layout_of(const Recipe& recipe, const Group& group,
                                                   const std::vector<std::uint64_t>& coordinates);

// The first two different local layouts of equal shape, in the order of the coordinates; nothing if
// there are no two.
std::optional<std::pair<layout::LocalLayout, layout::LocalLayout>> shards_to_swap(
    const Recipe& recipe, const Group& group);

// The axis over which the tensor is a sum or mean of several ranks, and its last coordinate that
// holds a term.
struct DroppedTerm {
  std::size_t axis = 0;
  std::uint64_t coordinate = 0;
};
std::optional<DroppedTerm> dropped_term(const trace::Mesh& mesh, const trace::TensorEntry& entry);

// The bytes of all datasets of all ranks, or nothing if they overflow 64 bits.
std::optional<std::uint64_t> stored_bytes(const Recipe& recipe);

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
