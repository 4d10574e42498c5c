#include "measure/sections.h"

#include <algorithm>

namespace ttrace::measure {

std::vector<tensor::Box> sections_of(const tensor::Shape& shape) {
  const tensor::Box all = tensor::whole(shape);
  std::vector<tensor::Box> sections;
  // A section may have half as many elements as allowed: it consists of whole rows.
  const std::uint64_t fewest = kMostSections / 2;
  const std::uint64_t limit = std::max(kSectionElements, tensor::volume(all) / fewest + 1);
  tensor::for_each_sub_box(all, limit,
                           [&](const tensor::Box& section) { sections.push_back(section); });
  if (sections.empty()) sections.push_back(all);
  return sections;
}

namespace {

struct OwnerRange {
  std::size_t owner = 0;
  std::size_t number = 0;  // in the order of owners and their boxes
  const tensor::Box* box = nullptr;
  std::uint64_t first = 0;  // row-major positions of its first and last element
  std::uint64_t last = 0;
};

std::uint64_t last_position(const tensor::Shape& shape, const tensor::Box& box) {
  tensor::Shape corner = box.origin;
  for (std::size_t d = 0; d < corner.size(); ++d) corner[d] += box.extent[d] - 1;
  return tensor::position(shape, corner);
}

std::vector<OwnerRange> locate_all(const tensor::Shape& shape, const tensor::Box& within,
                                   const std::vector<RankBoxes>& owners) {
  std::vector<OwnerRange> located;
  if (tensor::empty(within)) return located;
  const std::uint64_t start = tensor::position(shape, within.origin);
  const std::uint64_t stop = last_position(shape, within);
  std::size_t number = 0;
  for (std::size_t owner = 0; owner < owners.size(); ++owner) {
    for (const tensor::Box& box : owners[owner].boxes) {
      if (tensor::empty(box)) continue;
      const std::uint64_t first = tensor::position(shape, box.origin);
      const std::uint64_t last = last_position(shape, box);
      if (first <= stop && last >= start) located.push_back({owner, number, &box, first, last});
      ++number;
    }
  }
  std::stable_sort(located.begin(), located.end(),
                   [](const OwnerRange& a, const OwnerRange& b) { return a.first < b.first; });
  return located;
}

std::uint64_t times_larger(const tensor::Shape& shape, const tensor::Box& within,
                           const std::vector<OwnerRange>& located, std::uint64_t limit) {
  if (located.empty()) return 1;
  const std::uint64_t start = tensor::position(shape, within.origin);
  const auto in_first = std::count_if(located.begin(), located.end(), [&](const OwnerRange& box) {
    return box.first <= start || box.first - start < limit;
  });
  return std::clamp<std::uint64_t>(static_cast<std::uint64_t>(in_first), 1, kMostTimesLarger);
}

}  // namespace

void for_each_read(
    const tensor::Shape& shape, const tensor::Box& within, const std::vector<RankBoxes>& owners,
    std::uint64_t limit,
    const std::function<void(const tensor::Box& box, const std::vector<OwnedBox>& parts)>& visit) {
  const std::vector<OwnerRange> located = locate_all(shape, within, owners);
  limit *= times_larger(shape, within, located, limit);
  auto next = located.begin();
  std::vector<OwnerRange> open;  // boxes that reach into `read`, by number
  std::vector<OwnedBox> parts;
  tensor::for_each_sub_box(within, limit, [&](const tensor::Box& read) {
    const std::uint64_t first = tensor::position(shape, read.origin);
    const std::uint64_t last = last_position(shape, read);
    open.erase(std::remove_if(open.begin(), open.end(),
                              [&](const OwnerRange& box) { return box.last < first; }),
               open.end());
    for (; next != located.end() && next->first <= last; ++next) {
      const auto place = std::upper_bound(
          open.begin(), open.end(), *next,
          [](const OwnerRange& a, const OwnerRange& b) { return a.number < b.number; });
      open.insert(place, *next);
    }
    parts.clear();
    for (const OwnerRange& box : open) {
      if (const auto common = tensor::intersect(*box.box, read)) {
        parts.push_back({box.owner, *common});
      }
    }
    visit(read, parts);
  });
}

const InputBox& BoxReader::read(const tensor::Box& box) {
  input_.box = box;
  if (const auto stored = tensor_->read_stored(box)) {
    input_.values = *stored;
    return input_;
  }
  numbers_.resize(tensor::volume(box));
  tensor_->read(box, numbers_);
  input_.values = {std::as_bytes(std::span(numbers_)), tensor::DType::kFloat64, 1};
  return input_;
}

const InputBox& BoxReader::read_in_place(const tensor::Box& box, const Backend& backend) {
  const auto values = tensor_->values_on_device(box, backend);
  if (!values) return read(box);
  input_ = {box, *values};
  return input_;
}

const InputBox& BoxReader::read_integers(const tensor::Box& box) {
  input_.box = box;
  integers_.resize(tensor::volume(box));
  tensor_->read_integers(box, integers_);
  input_.values = {std::as_bytes(std::span(integers_)),
                   is_u64_ ? tensor::DType::kUInt64 : tensor::DType::kInt64, 1};
  return input_;
}

std::span<double> BoxReader::decode_input() {
  const std::span<const std::byte> numbers = std::as_bytes(std::span(numbers_));
  if (input_.values.bits.data() != numbers.data()) {
    numbers_.resize(tensor::volume(input_.box));
    decode(input_.values, numbers_);
    input_.values = {std::as_bytes(std::span(numbers_)), tensor::DType::kFloat64, 1};
  }
  return numbers_;
}

}  // namespace ttrace::measure
