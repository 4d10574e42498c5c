// One number of an explicit placement changed: what a collector that miscounts would write.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "property/random_layout.h"

namespace ttrace::test {

// An entry dropped, doubled, or one more or less; not the last one dropped.
inline void change_list(Random& random, std::vector<std::uint64_t>& list) {
  if (list.empty()) return list.push_back(1);
  const std::size_t i = random.between(0, list.size() - 1);
  switch (random.between(0, 3)) {
    case 0:
      if (list.size() > 1) list.erase(list.begin() + static_cast<std::ptrdiff_t>(i));
      break;
    case 1:
      list.push_back(list[i]);
      break;
    case 2:
      ++list[i];
      break;
    default:
      list[i] = list[i] > 0 ? list[i] - 1 : 1;
  }
}

// `items` with one taken away, put over another or added once more.
template <typename Item>
void change_items(Random& random, std::vector<Item>& items) {
  const std::size_t i = random.between(0, items.size() - 1);
  switch (random.between(0, 2)) {
    case 0:
      items.erase(items.begin() + static_cast<std::ptrdiff_t>(i));
      break;
    case 1:
      items[random.between(0, items.size() - 1)] = items[i];
      break;
    default:
      items.push_back(items[i]);
  }
}

struct ChangePlacement {
  Random& random;

  void operator()(trace::Shard& shard) const {
    if (shard.sizes) change_list(random, *shard.sizes);
  }
  void operator()(trace::Segments& segments) const {
    const std::size_t s = random.between(0, segments.segments.size() - 1);
    const auto at = static_cast<std::ptrdiff_t>(s);
    switch (random.between(0, 4)) {
      case 0:
        if (segments.segments.size() == 1) return;
        segments.segments.erase(segments.segments.begin() + at);
        if (segments.sizes) segments.sizes->erase(segments.sizes->begin() + at);
        return;
      case 1:
        segments.segments.push_back(segments.segments[s]);
        if (segments.sizes) segments.sizes->push_back((*segments.sizes)[s]);
        return;
      case 2:
        ++segments.segments[s];
        return;
      case 3:
        ++segments.repeat;
        return;
      default:
        if (segments.sizes) change_list(random, (*segments.sizes)[s]);
    }
  }
  void operator()(trace::Boxes& boxes) const {
    tensor::Box& box = boxes.boxes[random.between(0, boxes.boxes.size() - 1)];
    const std::size_t d = random.between(0, box.origin.size() - 1);
    switch (random.between(0, 3)) {
      case 0:
        return change_items(random, boxes.boxes);
      case 1:
        if (!tensor::empty(box)) ++box.origin[d];
        return;
      case 2:
        ++box.extent[d];
        return;
      default:
        if (box.extent[d] > 0) --box.extent[d];
    }
  }
  void operator()(trace::Flat& flat) const {
    trace::Flat::Interval& range = flat.ranges[random.between(0, flat.ranges.size() - 1)];
    switch (random.between(0, 4)) {
      case 0:
        return change_items(random, flat.ranges);
      case 1:
        if (range.start < range.stop) range = {range.start + 1, range.stop + 1};
        return;
      case 2:
        ++range.stop;
        return;
      case 3:
        if (range.start > 0) --range.start;
        return;
      default:
        if (range.start < range.stop) --range.stop;
    }
  }
  template <typename Other>
  void operator()(Other&) const {}
};

// Whether every element has one holder and all numbers fit, by dealing out single elements.
inline bool is_sound(const RandomTensor& tensor, const trace::Mesh& mesh) {
  const NaiveDeal deal = tensor.deal(mesh);
  if (!deal.fits) return false;
  for (const int times : times_held(deal, tensor.elements())) {
    if (times != 1) return false;
  }
  return true;
}

// `sound` with a placement so changed that it is sound no more; nothing if there is none to change.
inline std::optional<RandomTensor> with_defect(Random& random, const trace::Mesh& mesh,
                                               const RandomTensor& sound) {
  for (int i = 0; i < 10; ++i) {
    RandomTensor changed = sound;
    if (changed.entry.placements.empty()) return std::nullopt;
    auto placed = changed.entry.placements.begin();
    std::advance(placed, random.between(0, changed.entry.placements.size() - 1));
    const trace::Placement before = placed->second;
    trace::Placement& placement = changed.entry.placements[std::string(placed->first)];
    std::visit(ChangePlacement{random}, placement);
    if (placement != before && !is_sound(changed, mesh)) return changed;
  }
  return std::nullopt;
}

}  // namespace ttrace::test
