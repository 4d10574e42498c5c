#include "compare/measure.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "base/error.h"
#include "compare/block_reader.h"
#include "compare/logical_tensor.h"
#include "compare/slab_stats.h"
#include "tensor/decode.h"

namespace ttrace::compare {
namespace {

// 2 MiB of doubles per tensor and thread: past the size where reading in larger parts is faster.
constexpr std::uint64_t kSlabElements = std::uint64_t{1} << 18;

bool is_exact(const trace::TensorEntry& entry) { return !tensor::is_floating(entry.dtype); }

// Equality of decoded integers: a uint64 above 2^63 has the bits of a negative int64.
std::uint64_t count_unequal(std::span<const std::int64_t> reference, bool reference_is_u64,
                            std::span<const std::int64_t> candidate, bool candidate_is_u64) {
  std::uint64_t unequal = 0;
  for (std::size_t i = 0; i < reference.size(); ++i) {
    const bool same =
        reference[i] == candidate[i] && (reference[i] >= 0 || reference_is_u64 == candidate_is_u64);
    unequal += same ? 0 : 1;
  }
  return unequal;
}

// Distances of the replicas over all blocks: the n-th replica of every block belongs to the n-th
// coordinate of the replicate axes, so their squares add up.
class ReplicaTotals {
 public:
  void add(const BlockReader& reader) {
    for (const ReplicaCheck& check : reader.replica_checks()) {
      if (check.replicas() > 1) has_replicas_ = true;
      if (check.all_equal()) continue;
      differ_ = true;
      const std::vector<double>& squared = check.squared_distances();
      if (squares_.size() < squared.size()) squares_.resize(squared.size(), 0);
      for (std::size_t i = 0; i < squared.size(); ++i) squares_[i] += squared[i];
      const double furthest = *std::max_element(squared.begin(), squared.end());
      if (furthest > furthest_) {
        furthest_ = furthest;
        classes_ = check.classes();
      }
    }
  }

  void store(Measurement& measurement) const {
    measurement.has_replicas = has_replicas_;
    measurement.replicas_differ = differ_;
    if (!differ_) return;
    measurement.replicas.classes = classes_;
    measurement.replicas.distance_norm =
        std::sqrt(*std::max_element(squares_.begin(), squares_.end()));
  }

 private:
  bool has_replicas_ = false;
  bool differ_ = false;
  double furthest_ = -1;
  std::vector<double> squares_;
  std::vector<std::vector<std::uint64_t>> classes_;
};

std::vector<std::uint64_t> ranks_of(const layout::Block& block) {
  std::vector<std::uint64_t> ranks;
  for (const layout::Term& term : block.terms) {
    for (const layout::Piece& piece : term.replicas) ranks.push_back(piece.rank);
  }
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

}  // namespace

Measurement measure(const TensorRef& reference, const TensorRef& candidate,
                    const std::vector<TensorRef>& noise) {
  const layout::Plan plan = layout::plan_layout(
      *candidate.entry, candidate.source->manifest().meshes.at(candidate.entry->mesh));
  LogicalTensor reference_tensor(*reference.source, *reference.entry);
  std::vector<LogicalTensor> noise_tensors;
  for (const TensorRef& run : noise) noise_tensors.emplace_back(*run.source, *run.entry);
  const bool exact = is_exact(*reference.entry) && is_exact(*candidate.entry);

  Measurement result;
  std::vector<double> noise_squares(noise.size(), 0);
  ReplicaTotals replicas;
  std::vector<double> r;
  std::vector<double> c;
  std::vector<double> n;
  std::vector<std::int64_t> exact_r;
  std::vector<std::int64_t> exact_c;
  for (const layout::Block& block : plan.blocks) {
    BlockReader candidate_block(*candidate.source, *candidate.entry, block, plan.combination,
                                Replicas::kAll);
    BlockStats here{block.global, ranks_of(block), {}};
    tensor::for_each_slab(block.global, kSlabElements, [&](const tensor::Box& slab) {
      const std::size_t count = tensor::volume(slab);
      r.resize(count);
      c.resize(count);
      reference_tensor.read(slab, r);
      if (exact) {
        exact_r.resize(count);
        exact_c.resize(count);
        reference_tensor.read_integers(slab, exact_r);
        // Read once, or the replicas would be held against each other twice. The manifest refuses
        // integers that are scaled or partial.
        const std::span<const std::byte> bits = candidate_block.read_bits(slab);
        tensor::decode_floats(candidate.entry->dtype, bits, c);
        tensor::decode_integers(candidate.entry->dtype, bits, exact_c);
      } else {
        candidate_block.read(slab, c);
      }
      TileStats stats = slab_stats(slab, r, c);
      if (exact) {
        stats.unequal = count_unequal(exact_r, reference.entry->dtype == tensor::DType::kUInt64,
                                      exact_c, candidate.entry->dtype == tensor::DType::kUInt64);
      }
      here.stats.merge(stats);
      for (std::size_t i = 0; i < noise_tensors.size(); ++i) {
        n.resize(count);
        noise_tensors[i].read(slab, n);
        noise_squares[i] += squared_distance(r, n);
      }
    });
    replicas.add(candidate_block);
    result.bytes_read += candidate_block.bytes_read();
    result.total.merge(here.stats);
    result.blocks.push_back(std::move(here));
  }
  replicas.store(result);
  for (const double square : noise_squares) result.noise_norms.push_back(std::sqrt(square));
  result.bytes_read += reference_tensor.bytes_read();
  for (const LogicalTensor& run : noise_tensors) result.bytes_read += run.bytes_read();
  return result;
}

}  // namespace ttrace::compare
