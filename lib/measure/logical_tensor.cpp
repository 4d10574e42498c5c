#include "measure/logical_tensor.h"

#include <algorithm>

namespace ttrace::measure {

LogicalTensor::LogicalTensor(const trace::Source& source, const trace::TensorEntry& entry,
                             Replicas replicas)
    : source_(&source),
      entry_(&entry),
      replicas_(replicas),
      planned_(planned_tensor(source, entry)) {}

BlockReader& LogicalTensor::reader_of(std::size_t block) {
  auto found = open_.find(block);
  if (found == open_.end()) {
    BlockReader reader(*source_, *entry_, planned_->plan().blocks[block],
                       planned_->plan().combination, replicas_);
    open_shards_ += reader.open_shards();
    while (open_shards_ > kMostOpenShards && !open_.empty()) close_least_used();
    found = open_.emplace(block, OpenBlock{std::move(reader)}).first;
  }
  found->second.last_used = ++uses_;
  return found->second.reader;
}

void LogicalTensor::close_least_used() {
  const auto least = std::min_element(open_.begin(), open_.end(), [](const auto& a, const auto& b) {
    return a.second.last_used < b.second.last_used;
  });
  const BlockReader& reader = least->second.reader;
  open_shards_ -= reader.open_shards();
  closed_bytes_ += reader.bytes_read();
  closed_checks_.emplace_back(least->first, reader.replica_checks());
  open_.erase(least);
}

template <typename Value, typename ReadBlock>
void LogicalTensor::read_parts(const tensor::Box& box, std::span<Value> out, ReadBlock read_block) {
  std::vector<Value> values;
  planned_->index().for_each(box, [&](std::size_t block, const layout::PlacedBox& part) {
    const tensor::Box common = *tensor::intersect(part.global, box);
    const tensor::Box local =
        tensor::shifted(tensor::relative_to(common, part.global.origin), part.local.origin);
    if (common == box) {
      read_block(reader_of(block), local, out);
      return false;  // parts are disjoint
    }
    values.resize(tensor::volume(common));
    read_block(reader_of(block), local, std::span<Value>(values));
    tensor::copy_common(common, std::as_bytes(std::span(values)), box, std::as_writable_bytes(out),
                        sizeof(Value));
    return true;
  });
}

void LogicalTensor::read(const tensor::Box& box, std::span<double> out) {
  read_parts(box, out, [](BlockReader& reader, const tensor::Box& part, std::span<double> values) {
    reader.read(part, values);
  });
}

template <typename Read>
std::optional<StoredValues> LogicalTensor::of_one_shard(const tensor::Box& box, Read read) {
  if (!tensor::is_floating(entry_->dtype) || planned_->plan().combination.factor != 1)
    return std::nullopt;
  std::optional<StoredValues> stored;
  planned_->index().for_each(box, [&](std::size_t block, const layout::PlacedBox& part) {
    if (planned_->plan().blocks[block].terms.size() != 1) return false;
    if (*tensor::intersect(part.global, box) != box) return false;
    const tensor::Box local =
        tensor::shifted(tensor::relative_to(box, part.global.origin), part.local.origin);
    stored = read(reader_of(block), local);
    return false;
  });
  return stored;
}

std::optional<StoredValues> LogicalTensor::read_stored(const tensor::Box& box) {
  return of_one_shard(box, [&](BlockReader& reader, const tensor::Box& local) {
    return StoredValues{reader.read_bits(local), entry_->dtype, entry_->scale};
  });
}

std::optional<StoredValues> LogicalTensor::values_on_device(const tensor::Box& box,
                                                            const Backend& backend) {
  return of_one_shard(box, [&](BlockReader& reader, const tensor::Box& local) {
    return reader.values_on_device(local, backend);
  });
}

void LogicalTensor::read_integers(const tensor::Box& box, std::span<std::int64_t> out) {
  read_parts(box, out,
             [](BlockReader& reader, const tensor::Box& part, std::span<std::int64_t> values) {
               reader.read_integers(part, values);
             });
}

std::vector<RankBoxes> LogicalTensor::rank_boxes() const {
  std::vector<RankBoxes> owners;
  for (const layout::Block& block : planned_->plan().blocks) {
    RankBoxes owner;
    for (const layout::PlacedBox& part : block.held.parts) owner.boxes.push_back(part.global);
    for (const layout::Term& term : block.terms) {
      owner.ranks.insert(owner.ranks.end(), term.ranks.begin(), term.ranks.end());
    }
    std::sort(owner.ranks.begin(), owner.ranks.end());
    owners.push_back(std::move(owner));
  }
  return owners;
}

std::optional<ElementPlace> LogicalTensor::locate(const tensor::Shape& point) const {
  std::optional<ElementPlace> place;
  const tensor::Box element{point, tensor::Shape(point.size(), 1)};
  planned_->index().for_each(element, [&](std::size_t block, const layout::PlacedBox& part) {
    const layout::LocalLayout& held = planned_->plan().blocks[block].held;
    tensor::Shape local =
        tensor::shifted(tensor::relative_to(element, part.global.origin), part.local.origin).origin;
    if (held.range) {
      local = {tensor::position(held.shape, local) - held.range->start};
    }
    place = ElementPlace{planned_->plan().blocks[block].terms[0].ranks[0], std::move(local)};
    return false;
  });
  return place;
}

void LogicalTensor::for_each_check(const VisitCheck& visit) const {
  const auto visit_all = [&](std::size_t block, const std::vector<ReplicaCheck>& checks) {
    for (std::size_t term = 0; term < checks.size(); ++term) visit({block, term}, checks[term]);
  };
  for (const auto& [block, checks] : closed_checks_) visit_all(block, checks);
  for (const auto& [block, open] : open_) visit_all(block, open.reader.replica_checks());
}

std::uint64_t LogicalTensor::bytes_read() const {
  std::uint64_t bytes = closed_bytes_;
  for (const auto& [block, open] : open_) bytes += open.reader.bytes_read();
  return bytes;
}

}  // namespace ttrace::measure
