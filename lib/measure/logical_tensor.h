// Reads a tensor of a trace from its shards.
#pragma once

#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "measure/block_reader.h"
#include "measure/planned_tensor.h"
#include "measure/tensor_reader.h"

namespace ttrace::measure {

// Shards are opened when a box first needs them, and closed when many others are needed: a run of
// thousands of ranks has more files than a process may have open.
class LogicalTensor : public TensorReader {
 public:
  // `entry` must outlive the reader. Throws as planned_tensor.
  LogicalTensor(const trace::Source& source, const trace::TensorEntry& entry,
                Replicas replicas = Replicas::kFirstOnly);

  void read(const tensor::Box& box, std::span<double> out) override;
  std::optional<StoredValues> read_stored(const tensor::Box& box) override;
  std::optional<StoredValues> values_on_device(const tensor::Box& box,
                                               const Backend& backend) override;
  void read_integers(const tensor::Box& box, std::span<std::int64_t> out) override;
  std::vector<RankBoxes> rank_boxes() const override;
  std::optional<ElementPlace> locate(const tensor::Shape& point) const override;
  void for_each_check(const VisitCheck& visit) const override;
  std::uint64_t bytes_read() const override;

 private:
  template <typename Value, typename ReadBlock>
  void read_parts(const tensor::Box& box, std::span<Value> out, ReadBlock read_block);
  // Returns what `read` gives for the shard that has all of the box, in coordinates of its array.
  template <typename Read>
  std::optional<StoredValues> of_one_shard(const tensor::Box& box, Read read);
  struct OpenBlock {
    BlockReader reader;
    std::uint64_t last_used = 0;
  };

  BlockReader& reader_of(std::size_t block);
  void close_least_used();

  const trace::Source* source_;
  const trace::TensorEntry* entry_;
  Replicas replicas_;
  std::shared_ptr<const PlannedTensor> planned_;
  std::map<std::size_t, OpenBlock> open_;
  std::uint64_t uses_ = 0;
  std::size_t open_shards_ = 0;
  std::vector<std::pair<std::size_t, std::vector<ReplicaCheck>>> closed_checks_;  // by block
  std::uint64_t closed_bytes_ = 0;
};

}  // namespace ttrace::measure
