// Reads one block of a logical tensor: the shards of all ranks that hold it, reduced to its value.
// Checks on the way whether the replicas are equal.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "layout/plan.h"
#include "measure/replica_check.h"
#include "measure/shard_reader.h"

namespace ttrace::measure {

// At most so many datasets are open at once: each keeps its file open.
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
  // Has the distances of `different_` measured and takes them to the check of the term.
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
