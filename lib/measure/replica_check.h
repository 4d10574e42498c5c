// Whether copies that should be equal are: exact classes of ranks that agree, and how far apart.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace ttrace::measure {

// Fed slab by slab. Replica 0 is the one the others are held against.
class ReplicaCheck {
 public:
  explicit ReplicaCheck(std::vector<std::uint64_t> ranks);

  // In the current slab, replica `i` (≥ 1) has the bits of replica 0.
  void add_equal(std::size_t i);
  // In the current slab it does not: the squared distance from replica 0 (infinite where a
  // non-finite value differs, 0 where only the sign of zeros or the payload of NaNs does), and its
  // bits, by which replicas that differ from 0 but agree with each other are recognised.
  void add_different(std::size_t i, double squared_distance, std::span<const std::byte> bits);
  void finish_slab();

  // Adds what was read of other elements, by a reader of the same block.
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
  std::vector<std::size_t> slab_class_;  // within the current slab: replicas of equal bits
  std::vector<std::vector<std::byte>> slab_bits_;  // of slab classes 1, 2, ...
};

}  // namespace ttrace::measure
