#include "measure/replica_check.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <utility>

namespace ttrace::measure {

ReplicaCheck::ReplicaCheck(std::vector<std::uint64_t> ranks)
    : ranks_(std::move(ranks)),
      squared_distance_(ranks_.size(), 0),
      class_of_(ranks_.size(), 0),
      box_class_(ranks_.size(), 0) {}

void ReplicaCheck::add_equal(std::size_t i) { box_class_[i] = 0; }

void ReplicaCheck::add_different(std::size_t i, double squared_distance,
                                 std::span<const std::byte> bits) {
  squared_distance_[i] += squared_distance;
  if (squared_distance == 0) {
    box_class_[i] = 0;  // -0 and +0, or two NaNs: no number differs
    return;
  }
  const auto same = std::find_if(box_bits_.begin(), box_bits_.end(), [&bits](const auto& known) {
    return std::memcmp(known.data(), bits.data(), bits.size()) == 0;
  });
  box_class_[i] = static_cast<std::size_t>(same - box_bits_.begin()) + 1;
  if (same == box_bits_.end()) box_bits_.emplace_back(bits.begin(), bits.end());
}

void ReplicaCheck::refine(const std::vector<std::size_t>& classes) {
  std::map<std::pair<std::size_t, std::size_t>, std::size_t> refined;
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    const auto next = refined.size();
    class_of_[i] = refined.emplace(std::pair(class_of_[i], classes[i]), next).first->second;
  }
}

void ReplicaCheck::finish_box() {
  if (!box_bits_.empty()) refine(box_class_);
  box_bits_.clear();
  std::fill(box_class_.begin(), box_class_.end(), 0);
}

void ReplicaCheck::merge(const ReplicaCheck& later) {
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    squared_distance_[i] += later.squared_distance_[i];
  }
  if (!later.all_equal()) refine(later.class_of_);
}

bool ReplicaCheck::all_equal() const {
  return std::all_of(class_of_.begin(), class_of_.end(), [](std::size_t c) { return c == 0; });
}

std::vector<std::vector<std::uint64_t>> ReplicaCheck::classes() const {
  std::vector<std::vector<std::uint64_t>> groups;
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    if (groups.size() <= class_of_[i]) groups.resize(class_of_[i] + 1);
    groups[class_of_[i]].push_back(ranks_[i]);
  }
  // A mesh may list its ranks in any order.
  for (std::vector<std::uint64_t>& group : groups) std::sort(group.begin(), group.end());
  return groups;
}

}  // namespace ttrace::measure
