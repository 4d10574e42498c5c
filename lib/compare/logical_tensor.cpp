#include "compare/logical_tensor.h"

namespace ttrace::compare {

LogicalTensor::LogicalTensor(const trace::Source& source, const trace::TensorEntry& entry)
    : source_(&source),
      entry_(&entry),
      plan_(layout::plan_layout(entry, source.manifest().meshes.at(entry.mesh))) {}

BlockReader& LogicalTensor::reader_of(std::size_t block) {
  auto found = readers_.find(block);
  if (found == readers_.end()) {
    found = readers_
                .emplace(block, BlockReader(*source_, *entry_, plan_.blocks[block],
                                            plan_.combination, Replicas::kFirstOnly))
                .first;
  }
  return found->second;
}

template <typename Value, typename ReadBlock>
void LogicalTensor::read_blocks(const tensor::Box& box, std::span<Value> out,
                                ReadBlock read_block) {
  std::vector<Value> part;
  for (std::size_t i = 0; i < plan_.blocks.size(); ++i) {
    const auto common = tensor::intersect(plan_.blocks[i].global, box);
    if (!common) continue;
    if (*common == box) return read_block(reader_of(i), box, out);
    part.resize(tensor::volume(*common));
    read_block(reader_of(i), *common, std::span<Value>(part));
    tensor::copy_common(*common, std::as_bytes(std::span(part)), box, std::as_writable_bytes(out),
                        sizeof(Value));
  }
}

void LogicalTensor::read(const tensor::Box& box, std::span<double> out) {
  read_blocks(box, out, [](BlockReader& reader, const tensor::Box& part, std::span<double> values) {
    reader.read(part, values);
  });
}

void LogicalTensor::read_integers(const tensor::Box& box, std::span<std::int64_t> out) {
  read_blocks(box, out,
              [](BlockReader& reader, const tensor::Box& part, std::span<std::int64_t> values) {
                reader.read_integers(part, values);
              });
}

std::uint64_t LogicalTensor::bytes_read() const {
  std::uint64_t bytes = 0;
  for (const auto& [block, reader] : readers_) bytes += reader.bytes_read();
  return bytes;
}

}  // namespace ttrace::compare
