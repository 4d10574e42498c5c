// Reads one block of a logical tensor: the shards of all ranks that hold it, reduced to its value.
// Checks on the way whether the replicas are equal.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "layout/plan.h"
#include "measure/shard_reader.h"

namespace ttrace::measure {

// Keeps track of which ranks' replicas agree exactly, and of how far apart they are, box by box.
// Replica 0 is the one that the others are compared with.
class ReplicaCheck {
 public:
  explicit ReplicaCheck(std::span<const std::uint64_t> ranks);

  // In the current box, replica `i` (≥ 1) has the bits of replica 0.
  void add_equal(std::size_t i);
  // In the current box it does not. The distance is as in ReplicasRequest; the bits show which
  // replicas that differ from 0 agree with each other.
  void add_different(std::size_t i, double squared_distance, std::span<const std::byte> bits);
  void finish_box();

  // Adds the check of other elements, by a reader of the same block.
  void merge(const ReplicaCheck& later);

  bool all_equal() const;
  std::size_t replicas() const { return replicas_.size(); }
  // ‖replica i - replica 0‖² over everything read.
  std::vector<double> squared_distances() const;
  // Ranks that agree with each other everywhere read so far, ascending; the class of replica 0
  // first.
  std::vector<std::vector<std::uint64_t>> classes() const;

 private:
  struct Replica {
    std::uint64_t rank = 0;
    double squared_distance = 0;
    std::size_t class_of = 0;
    std::size_t box_class = 0;  // within the current box: replicas of equal bits
  };

  // Splits classes: replicas stay in one class only if their `member` in `others` is equal too.
  void refine(const std::vector<Replica>& others, std::size_t Replica::*member);

  std::vector<Replica> replicas_;
  std::vector<std::vector<std::byte>> box_bits_;  // of box classes 1, 2, ...
};

// The most datasets that are open at once: each keeps its file open.
inline constexpr std::size_t kMostOpenShards = 256;

// Which replicas of a shard a reader reads.
class Replicas {
 public:
  static const Replicas kFirstOnly;
  // All, each compared with the first one. `backend` measures how far those are that differ; it
  // must outlive the readers.
  static Replicas all(const Backend& backend) { return Replicas(&backend); }

  // Null for kFirstOnly.
  const Backend* backend() const { return backend_; }

 private:
  constexpr explicit Replicas(const Backend* backend) : backend_(backend) {}

  const Backend* backend_;
};
inline constexpr Replicas Replicas::kFirstOnly{nullptr};

class BlockReader {
 public:
  // Opens every shard it will read; throws as ShardReader. `block` and `combination` must outlive
  // the reader.
  BlockReader(const trace::Source& source, const trace::TensorEntry& entry,
              const layout::Block& block, const layout::Combination& combination,
              Replicas replicas);

  const layout::Block& block() const { return *block_; }

  // The logical values of `box` (in coordinates of the ranks' arrays, within one part of the
  // block), row-major.
  void read(const tensor::Box& box, std::span<double> out);

  // The same with exact integers; the tensor must be of an integer type or bool.
  void read_integers(const tensor::Box& box, std::span<std::int64_t> out);

  // The stored bits of `box`, without decoding and scale; for blocks of one term. Valid until the
  // next read.
  std::span<const std::byte> read_bits(const tensor::Box& box) { return read_term(0, box); }

  // The values of `box` in the memory of a device that `backend` reads; for blocks of one term, and
  // nothing if there are replicas to check.
  std::optional<StoredValues> values_on_device(const tensor::Box& box, const Backend& backend);

  // One per term, over everything read so far.
  const std::vector<ReplicaCheck>& replica_checks() const { return checks_; }
  std::uint64_t bytes_read() const;
  // Number of datasets it holds open between reads.
  std::size_t open_shards() const { return open_shards_; }

 private:
  struct TermReaders {
    std::vector<ShardReader> replicas;
  };

  // Returns the bits of the first replica of a term, after comparing all others with them.
  std::span<const std::byte> read_term(std::size_t term, const tensor::Box& box);
  // Measures the distances of `different_` and adds them to the check of the term.
  void note_different(std::size_t term);

  const trace::TensorEntry* entry_;
  const layout::Block* block_;
  const layout::Combination* combination_;
  const Backend* backend_;
  std::vector<TermReaders> terms_;
  std::size_t open_shards_ = 0;
  std::vector<ReplicaCheck> checks_;
  std::vector<std::byte> first_bits_;
  std::vector<std::byte> other_bits_;
  // Replicas that differ from the first in the box being read, until note_different.
  std::vector<std::pair<std::size_t, std::vector<std::byte>>> different_;
  std::vector<double> values_;
};

}  // namespace ttrace::measure
