// How the measuring loops read large tensors: threads measure sections independently, and read each
// section in boxes, which are the inputs of a backend.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "measure/backend.h"
#include "measure/tensor_reader.h"
#include "tensor/box.h"

namespace ttrace::measure {

// Large enough that opening the shards once more per section costs nothing. Every section is summed
// on its own, whatever the number of threads: changing this number changes rounding in the last
// bits.
inline constexpr std::uint64_t kSectionElements = std::uint64_t{1} << 24;

// A tensor that would have more sections has larger ones.
inline constexpr std::uint64_t kMostSections = 8192;

// Returns boxes that are contiguous in row-major order and together, in that order, make up the
// tensor. At least one; an empty tensor has an empty one.
std::vector<tensor::Box> sections_of(const tensor::Shape& shape);

// Elements that are read at once, of each tensor and by each thread: enough for few and large
// reads, and few enough to stay in a core's own cache until they are added up.
inline constexpr std::uint64_t kReadElements = std::uint64_t{1} << 16;

// Boxes that several owners share are read in larger units, by at most this factor: each owner's
// share is a read of its own, which costs as much as adding up thousands of elements.
inline constexpr std::uint64_t kMostTimesLarger = 4;

// A box that lies in one of the boxes of `RankBoxes` number `owner`.
struct OwnedBox {
  std::size_t owner = 0;
  tensor::Box box;
};

// Visits `within` box by box in the row-major order of `shape`, so that the reference is read once
// and in the order of its elements, however the candidate is sharded. Each box has at most `limit`
// elements, or up to kMostTimesLarger times as many where as many owners share the first `limit`.
// It comes with the parts of it that each owner has, in the order of `owners` (disjoint, together
// the whole tensor).
void for_each_read(
    const tensor::Shape& shape, const tensor::Box& within, const std::vector<RankBoxes>& owners,
    std::uint64_t limit,
    const std::function<void(const tensor::Box& box, const std::vector<OwnedBox>& parts)>& visit);

// Reads boxes of one tensor as inputs of a backend.
class BoxReader {
 public:
  // `is_u64`: integers are read as uint64, whose bits an int64 keeps.
  explicit BoxReader(std::unique_ptr<TensorReader> tensor, bool is_u64 = false)
      : tensor_(std::move(tensor)), is_u64_(is_u64) {}

  TensorReader& tensor() { return *tensor_; }
  const TensorReader& tensor() const { return *tensor_; }

  // Reads numbers: as stored where one shard makes up the box, else decoded. Valid until the next
  // read.
  const InputBox& read(const tensor::Box& box);
  // As read(), but if the values lie in the memory of a device that `backend` reads, leaves them
  // there. Such an input can only be used for a pair without a grid.
  const InputBox& read_in_place(const tensor::Box& box, const Backend& backend);
  // Reads exact integers.
  const InputBox& read_integers(const tensor::Box& box);

  // Decodes the last input and returns its numbers, which the caller may change.
  std::span<double> decode_input();
  const InputBox& input() const { return input_; }

 private:
  std::unique_ptr<TensorReader> tensor_;
  bool is_u64_;
  InputBox input_;
  std::vector<double> numbers_;
  std::vector<std::int64_t> integers_;
};

}  // namespace ttrace::measure
