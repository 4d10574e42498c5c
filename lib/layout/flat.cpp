#include "layout/flat.h"

namespace ttrace::layout {
namespace {

class Decomposition {
 public:
  explicit Decomposition(const tensor::Shape& shape)
      : shape_(shape), inner_(shape.size(), 1), prefix_(tensor::whole(shape)) {
    for (std::size_t d = shape.size(); d-- > 1;) inner_[d - 1] = inner_[d] * shape[d];
  }

  // [start, stop) of the array that fixing the dimensions before `d` leaves.
  void add(std::size_t d, std::uint64_t start, std::uint64_t stop) {
    if (start >= stop) return;
    const std::uint64_t first = start / inner_[d];
    const std::uint64_t last = (stop - 1) / inner_[d];
    const std::uint64_t head = start % inner_[d];
    const std::uint64_t tail = (stop - 1) % inner_[d] + 1;
    const bool whole_head = head == 0;
    const bool whole_tail = tail == inner_[d];
    if (first == last && !(whole_head && whole_tail)) return inside(d, first, head, tail);
    if (!whole_head) inside(d, first, head, inner_[d]);
    const std::uint64_t from = first + (whole_head ? 0 : 1);
    const std::uint64_t to = last + (whole_tail ? 1 : 0);
    if (from < to) {
      tensor::Box box = prefix_;
      box.origin[d] = from;
      box.extent[d] = to - from;
      boxes.push_back(std::move(box));
    }
    if (!whole_tail) inside(d, last, 0, tail);
  }

  std::vector<tensor::Box> boxes;

 private:
  void inside(std::size_t d, std::uint64_t index, std::uint64_t start, std::uint64_t stop) {
    prefix_.origin[d] = index;
    prefix_.extent[d] = 1;
    add(d + 1, start, stop);
    prefix_.origin[d] = 0;
    prefix_.extent[d] = shape_[d];
  }

  const tensor::Shape& shape_;
  tensor::Shape inner_;  // elements of one index of each dimension
  tensor::Box prefix_;
};

}  // namespace

std::vector<tensor::Box> flat_boxes(const tensor::Shape& shape, std::uint64_t start,
                                    std::uint64_t stop) {
  if (start >= stop) return {};
  if (shape.empty()) return {tensor::whole(shape)};
  Decomposition decomposition(shape);
  decomposition.add(0, start, stop);
  return std::move(decomposition.boxes);
}

}  // namespace ttrace::layout
