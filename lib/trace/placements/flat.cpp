#include "trace/placements/flat.h"

#include "base/strict_json.h"

namespace ttrace::trace {

using base::concat;

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

bool Flat::is_spelled(const base::JsonCursor& value) { return has_member(value, kKeyword); }

Flat Flat::parse(const base::JsonCursor& value) {
  value.allow_keys({kKeyword});
  Flat flat;
  for (const base::JsonCursor& item : value.require(kKeyword).items()) {
    const std::vector<std::uint64_t> range = item.as_counts();
    if (range.size() != 2) throw item.error("expected [start, stop]");
    if (range[1] < range[0]) {
      throw item.error("stops at ", range[1], ", before its start ", range[0]);
    }
    flat.ranges.push_back({range[0], range[1]});
  }
  return flat;
}

std::string Flat::json() const {
  std::string text = "{\"flat\":[";
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    text += concat(i > 0 ? "," : "", "[", ranges[i].start, ",", ranges[i].stop, "]");
  }
  return text + "]}";
}

std::string Flat::describe() const { return "flat ranges"; }

std::string Flat::describe_numbers() const {
  return " " + describe_list(ranges, [](const Interval& range) {
           return concat("[", range.start, ", ", range.stop, "]");
         });
}

std::string Flat::describe_over(const std::string& axis) const {
  return concat("flat ranges over ", axis);
}

void Flat::require_lists_for(std::uint64_t count) const {
  require_one_each(ranges.size(), "flat ranges", count);
}

std::vector<tensor::Box> flat_boxes(const tensor::Shape& shape, std::uint64_t start,
                                    std::uint64_t stop) {
  if (start >= stop) return {};
  if (shape.empty()) return {tensor::whole(shape)};
  Decomposition decomposition(shape);
  decomposition.add(0, start, stop);
  return std::move(decomposition.boxes);
}

}  // namespace ttrace::trace
