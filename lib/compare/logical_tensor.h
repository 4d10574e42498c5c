// A logical tensor of any trace, read by boxes of its own coordinates, whatever its shards are.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "compare/block_reader.h"
#include "layout/plan.h"
#include "trace/source.h"

namespace ttrace::compare {

// Reads the first replica of everything. Shards are opened when a box first needs them. Not
// thread-safe; cheap to make.
class LogicalTensor {
 public:
  LogicalTensor(const trace::Source& source, const trace::TensorEntry& entry);

  const trace::TensorEntry& entry() const { return *entry_; }

  // Logical values of `box`, row-major. Throws an input error if a shard is missing or wrong.
  void read(const tensor::Box& box, std::span<double> out);
  void read_integers(const tensor::Box& box, std::span<std::int64_t> out);
  std::uint64_t bytes_read() const;

 private:
  template <typename Value, typename ReadBlock>
  void read_blocks(const tensor::Box& box, std::span<Value> out, ReadBlock read_block);
  BlockReader& reader_of(std::size_t block);

  const trace::Source* source_;
  const trace::TensorEntry* entry_;
  layout::Plan plan_;
  std::map<std::size_t, BlockReader> readers_;
};

}  // namespace ttrace::compare
