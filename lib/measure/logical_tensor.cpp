#include "measure/logical_tensor.h"

#include <algorithm>
#include <set>

#include "measure/shard_reader.h"

namespace ttrace::measure {

PartIndex::PartIndex(const layout::Plan& plan) {
  for (std::size_t b = 0; b < plan.blocks.size(); ++b) {
    for (const layout::Part& part : plan.blocks[b].held.parts) parts_.push_back({0, b, &part});
  }
  const std::size_t dimensions = parts_.empty() ? 0 : parts_[0].part->global.extent.size();
  std::size_t most = 0;
  for (std::size_t d = 0; d < dimensions; ++d) {
    std::set<std::uint64_t> starts;
    for (const Located& located : parts_) starts.insert(located.part->global.origin[d]);
    if (starts.size() <= most) continue;
    most = starts.size();
    dim_ = d;
  }
  if (dimensions == 0) return;
  for (Located& located : parts_) {
    located.start = located.part->global.origin[dim_];
    longest_ = std::max(longest_, located.part->global.extent[dim_]);
  }
  std::stable_sort(parts_.begin(), parts_.end(),
                   [](const Located& a, const Located& b) { return a.start < b.start; });
}

void PartIndex::for_each(
    const tensor::Box& box,
    const std::function<bool(std::size_t block, const layout::Part& part)>& visit) const {
  const bool has_dimensions = !box.extent.empty();
  const std::uint64_t from = has_dimensions ? box.origin[dim_] : 0;
  const std::uint64_t stop = has_dimensions ? from + box.extent[dim_] : 1;
  // A part that starts this much earlier ends before the box.
  const std::uint64_t earliest = from > longest_ ? from - longest_ : 0;
  auto located =
      std::lower_bound(parts_.begin(), parts_.end(), earliest,
                       [](const Located& l, std::uint64_t start) { return l.start < start; });
  for (; located != parts_.end() && located->start < stop; ++located) {
    if (!tensor::intersect(located->part->global, box)) continue;
    if (!visit(located->block, *located->part)) return;
  }
}

LogicalTensor::LogicalTensor(const trace::Source& source, const trace::TensorEntry& entry,
                             Replicas replicas)
    : source_(&source),
      entry_(&entry),
      replicas_(replicas),
      plan_(resolved_plan(source, entry)),
      index_(plan_) {}

BlockReader& LogicalTensor::reader_of(std::size_t block) {
  auto found = open_.find(block);
  if (found == open_.end()) {
    BlockReader reader(*source_, *entry_, plan_.blocks[block], plan_.combination, replicas_);
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
  index_.for_each(box, [&](std::size_t block, const layout::Part& part) {
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
  if (!tensor::is_floating(entry_->dtype) || plan_.combination.factor != 1) return std::nullopt;
  std::optional<StoredValues> stored;
  index_.for_each(box, [&](std::size_t block, const layout::Part& part) {
    if (plan_.blocks[block].terms.size() != 1) return false;
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
  for (const layout::Block& block : plan_.blocks) {
    RankBoxes owner;
    for (const layout::Part& part : block.held.parts) owner.boxes.push_back(part.global);
    for (const layout::Term& term : block.terms) {
      owner.ranks.insert(owner.ranks.end(), term.ranks.begin(), term.ranks.end());
    }
    std::sort(owner.ranks.begin(), owner.ranks.end());
    owners.push_back(std::move(owner));
  }
  return owners;
}

std::optional<Place> LogicalTensor::locate(const tensor::Shape& point) const {
  std::optional<Place> place;
  const tensor::Box element{point, tensor::Shape(point.size(), 1)};
  index_.for_each(element, [&](std::size_t block, const layout::Part& part) {
    const layout::LocalLayout& held = plan_.blocks[block].held;
    tensor::Shape local =
        tensor::shifted(tensor::relative_to(element, part.global.origin), part.local.origin).origin;
    if (held.range) {
      local = {tensor::position(held.shape, local) - held.range->start};
    }
    place = Place{plan_.blocks[block].terms[0].ranks[0], std::move(local)};
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
