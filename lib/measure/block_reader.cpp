#include "measure/block_reader.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <memory>
#include <utility>

#include "tensor/codec.h"

namespace ttrace::measure {

ReplicaCheck::ReplicaCheck(std::span<const std::uint64_t> ranks) {
  replicas_.reserve(ranks.size());
  for (const std::uint64_t rank : ranks) replicas_.push_back({rank});
}

void ReplicaCheck::add_equal(std::size_t i) { replicas_[i].box_class = 0; }

void ReplicaCheck::add_different(std::size_t i, double squared_distance,
                                 std::span<const std::byte> bits) {
  replicas_[i].squared_distance += squared_distance;
  if (squared_distance == 0) {
    replicas_[i].box_class = 0;  // -0 and +0, or two NaNs: no number differs
    return;
  }
  const auto same = std::find_if(box_bits_.begin(), box_bits_.end(), [&bits](const auto& known) {
    return std::memcmp(known.data(), bits.data(), bits.size()) == 0;
  });
  replicas_[i].box_class = static_cast<std::size_t>(same - box_bits_.begin()) + 1;
  if (same == box_bits_.end()) box_bits_.emplace_back(bits.begin(), bits.end());
}

void ReplicaCheck::refine(const std::vector<Replica>& others, std::size_t Replica::*member) {
  std::map<std::pair<std::size_t, std::size_t>, std::size_t> refined;
  for (std::size_t i = 0; i < replicas_.size(); ++i) {
    const auto next = refined.size();
    const std::pair both(replicas_[i].class_of, others[i].*member);
    replicas_[i].class_of = refined.emplace(both, next).first->second;
  }
}

void ReplicaCheck::finish_box() {
  if (!box_bits_.empty()) refine(replicas_, &Replica::box_class);
  box_bits_.clear();
  for (Replica& replica : replicas_) replica.box_class = 0;
}

void ReplicaCheck::merge(const ReplicaCheck& later) {
  for (std::size_t i = 0; i < replicas_.size(); ++i) {
    replicas_[i].squared_distance += later.replicas_[i].squared_distance;
  }
  if (!later.all_equal()) refine(later.replicas_, &Replica::class_of);
}

bool ReplicaCheck::all_equal() const {
  return std::all_of(replicas_.begin(), replicas_.end(),
                     [](const Replica& replica) { return replica.class_of == 0; });
}

std::vector<double> ReplicaCheck::squared_distances() const {
  std::vector<double> squares;
  for (const Replica& replica : replicas_) squares.push_back(replica.squared_distance);
  return squares;
}

std::vector<std::vector<std::uint64_t>> ReplicaCheck::classes() const {
  std::vector<std::vector<std::uint64_t>> groups;
  for (const Replica& replica : replicas_) {
    if (groups.size() <= replica.class_of) groups.resize(replica.class_of + 1);
    groups[replica.class_of].push_back(replica.rank);
  }
  // A mesh may list its ranks in any order.
  for (std::vector<std::uint64_t>& group : groups) std::sort(group.begin(), group.end());
  return groups;
}

namespace {

// Replicas that differ are collected for one request until they have this many bytes.
constexpr std::size_t kMostDifferentBytes = std::size_t{1} << 20;

}  // namespace

BlockReader::BlockReader(const trace::Source& source, const trace::TensorEntry& entry,
                         const layout::Block& block, const layout::Combination& combination,
                         Replicas replicas)
    : entry_(&entry), block_(&block), combination_(&combination), backend_(replicas.backend()) {
  const bool all = backend_ != nullptr;
  std::size_t shards = 0;
  for (const layout::Term& term : block.terms) {
    shards += all ? term.ranks.size() : 1;
  }
  const Between between = shards > kMostOpenShards ? Between::kClose : Between::kKeepOpen;
  open_shards_ = between == Between::kClose ? 0 : shards;
  for (const layout::Term& term : block.terms) {
    TermReaders readers;
    const auto ranks = std::span(term.ranks).first(all ? term.ranks.size() : 1);
    for (const std::uint64_t rank : ranks) {
      readers.replicas.emplace_back(source, entry, rank, block.held, between);
    }
    terms_.push_back(std::move(readers));
    checks_.emplace_back(ranks);
  }
}

std::span<const std::byte> BlockReader::read_term(std::size_t term, const tensor::Box& box) {
  std::vector<ShardReader>& replicas = terms_[term].replicas;
  replicas[0].read_bits(box, first_bits_);
  for (std::size_t i = 1; i < replicas.size(); ++i) {
    replicas[i].read_bits(box, other_bits_);
    if (std::memcmp(first_bits_.data(), other_bits_.data(), first_bits_.size()) == 0) {
      checks_[term].add_equal(i);
      continue;
    }
    different_.emplace_back(i, std::move(other_bits_));
    if (different_.size() * first_bits_.size() >= kMostDifferentBytes) note_different(term);
  }
  if (!different_.empty()) note_different(term);
  checks_[term].finish_box();
  return first_bits_;
}

std::optional<StoredValues> BlockReader::values_on_device(const tensor::Box& box,
                                                          const Backend& backend) {
  std::vector<ShardReader>& replicas = terms_[0].replicas;
  if (replicas.size() != 1) return std::nullopt;
  return replicas[0].values_on_device(box, backend);
}

void BlockReader::note_different(std::size_t term) {
  std::vector<double> distances(different_.size());
  ReplicasRequest request{{first_bits_, entry_->dtype, entry_->scale}, {}, distances.data()};
  for (const auto& [replica, bits] : different_) request.others.emplace_back(bits);
  const std::unique_ptr<Batch> batch = backend_->new_batch();
  batch->add(request);
  batch->finish();
  for (std::size_t i = 0; i < different_.size(); ++i) {
    checks_[term].add_different(different_[i].first, distances[i], different_[i].second);
  }
  different_.clear();
}

namespace {

// Elements decoded at once: so few that they stay in the first-level cache until they are added.
constexpr std::size_t kDecodedAtOnce = 2048;

void combine(bool maximum, std::span<const double> term, std::span<double> sums) {
  if (!maximum) {
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += term[i];
    return;
  }
  for (std::size_t i = 0; i < sums.size(); ++i) {
    // A NaN in `sums` stays, since no term is greater than it.
    if (term[i] > sums[i] || std::isnan(term[i])) sums[i] = term[i];
  }
}

// Sums wrap around, as those of the runs do. `is_u64`: the bits are those of unsigned numbers.
void combine_integers(bool maximum, bool is_u64, std::span<const std::int64_t> term,
                      std::span<std::int64_t> sums) {
  const auto bits = [](std::int64_t value) { return static_cast<std::uint64_t>(value); };
  for (std::size_t i = 0; i < sums.size(); ++i) {
    if (!maximum) {
      sums[i] = static_cast<std::int64_t>(bits(sums[i]) + bits(term[i]));
    } else if (is_u64 ? bits(term[i]) > bits(sums[i]) : term[i] > sums[i]) {
      sums[i] = term[i];
    }
  }
}

}  // namespace

void BlockReader::read(const tensor::Box& box, std::span<double> out) {
  terms_[0].replicas[0].decode(read_term(0, box), out);
  const std::size_t width = tensor::element_bytes(entry_->dtype);
  for (std::size_t term = 1; term < terms_.size(); ++term) {
    const std::span<const std::byte> bits = read_term(term, box);
    values_.resize(std::min(kDecodedAtOnce, out.size()));
    for (std::size_t first = 0; first < out.size(); first += kDecodedAtOnce) {
      const std::size_t count = std::min(kDecodedAtOnce, out.size() - first);
      const std::span<double> sums = out.subspan(first, count);
      const std::span<double> values = std::span(values_).first(count);
      terms_[term].replicas[0].decode(bits.subspan(first * width, count * width), values);
      combine(combination_->maximum, values, sums);
    }
  }
  if (combination_->factor != 1) {
    for (double& value : out) value *= combination_->factor;
  }
}

void BlockReader::read_integers(const tensor::Box& box, std::span<std::int64_t> out) {
  tensor::decode_integers(entry_->dtype, read_term(0, box), out);
  std::vector<std::int64_t> values(terms_.size() > 1 ? out.size() : 0);
  for (std::size_t term = 1; term < terms_.size(); ++term) {
    tensor::decode_integers(entry_->dtype, read_term(term, box), values);
    combine_integers(combination_->maximum, entry_->dtype == tensor::DType::kUInt64, values, out);
  }
}

std::uint64_t BlockReader::bytes_read() const {
  std::uint64_t bytes = 0;
  for (const TermReaders& term : terms_) {
    for (const ShardReader& replica : term.replicas) bytes += replica.bytes_read();
  }
  return bytes;
}

}  // namespace ttrace::measure
