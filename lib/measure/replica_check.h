// Keeps track of whether replicas are equal: which ranks agree exactly, and how far apart they are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace ttrace::measure {

// Is told box by box. Replica 0 is the one that the others are compared with.
class ReplicaCheck {
 public:
  explicit ReplicaCheck(std::vector<std::uint64_t> ranks);

  // In the current box, replica `i` (≥ 1) has the bits of replica 0.
  void add_equal(std::size_t i);
  // In the current box it does not. The distance is as in ReplicasRequest; by the bits, replicas
  // that differ from 0 but agree with each other are recognised.
  void add_different(std::size_t i, double squared_distance, std::span<const std::byte> bits);
  void finish_box();

  // Adds the check of other elements, by a reader of the same block.
  void merge(const ReplicaCheck& later);

  bool all_equal() const;
  std::size_t replicas() const { return ranks_.size(); }
  // ‖replica i - replica 0‖² over everything read.
  const std::vector<double>& squared_distances() const { return squared_distance_; }
  // Ranks that agree with each other everywhere read so far, ascending; the class of replica 0
  // first.
  std::vector<std::vector<std::uint64_t>> classes() const;

 private:
  // Replicas stay in one class only if they were, and are in one of `classes` too.
  void refine(const std::vector<std::size_t>& classes);

  std::vector<std::uint64_t> ranks_;
  std::vector<double> squared_distance_;
  std::vector<std::size_t> class_of_;
  std::vector<std::size_t> box_class_;            // within the current box: replicas of equal bits
  std::vector<std::vector<std::byte>> box_bits_;  // of box classes 1, 2, ...
};

}  // namespace ttrace::measure
