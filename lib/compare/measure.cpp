#include "compare/measure.h"

#include <algorithm>
#include <cmath>

#include "compare/slab_stats.h"
#include "compare/tensor_reader.h"

namespace ttrace::compare {
namespace {

bool is_exact(const layout::View& view) { return !tensor::is_floating(view.dtype); }

bool is_u64(const layout::View& view) { return view.dtype == tensor::DType::kUInt64; }

void to_floats(std::span<const std::int64_t> integers, bool u64, std::span<double> out) {
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i] = u64 ? static_cast<double>(static_cast<std::uint64_t>(integers[i]))
                 : static_cast<double>(integers[i]);
  }
}

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
  void add(const ReplicaCheck& check) {
    if (check.replicas() > 1) has_replicas_ = true;
    if (check.all_equal()) return;
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

}  // namespace

std::unique_ptr<TensorReader> TensorRef::open(Replicas replicas) const {
  return opener ? opener(replicas) : make_reader(*source, *view, replicas);
}

Measurement measure(const TensorRef& reference, const TensorRef& candidate, const Grid* grid) {
  const auto reference_tensor = reference.open(Replicas::kFirstOnly);
  const auto candidate_tensor = candidate.open(Replicas::kAll);
  const bool exact = is_exact(*reference.view) && is_exact(*candidate.view);

  Measurement result;
  std::optional<GridSums> by_cell;
  if (grid != nullptr) by_cell.emplace(*grid);
  std::vector<double> r;
  std::vector<double> c;
  std::vector<std::int64_t> exact_r;
  std::vector<std::int64_t> exact_c;
  const auto measure_slab = [&](const tensor::Box& slab, TileStats& into) {
    const std::size_t count = tensor::volume(slab);
    r.resize(count);
    c.resize(count);
    if (exact) {
      exact_r.resize(count);
      exact_c.resize(count);
      reference_tensor->read_integers(slab, exact_r);
      candidate_tensor->read_integers(slab, exact_c);
      to_floats(exact_r, is_u64(*reference.view), r);
      to_floats(exact_c, is_u64(*candidate.view), c);
    } else {
      reference_tensor->read(slab, r);
      candidate_tensor->read(slab, c);
    }
    TileStats stats = slab_stats(slab, r, c);
    if (exact) {
      stats.unequal =
          count_unequal(exact_r, is_u64(*reference.view), exact_c, is_u64(*candidate.view));
    }
    into.merge(stats);
    if (by_cell) by_cell->add(slab, r, c);
  };
  for (Region& region : candidate_tensor->regions()) {
    BlockStats here{std::move(region.boxes), std::move(region.ranks), {}, std::move(region.part)};
    for (const tensor::Box& box : here.boxes) {
      tensor::for_each_slab(box, kSlabElements,
                            [&](const tensor::Box& slab) { measure_slab(slab, here.stats); });
    }
    result.total.merge(here.stats);
    result.blocks.push_back(std::move(here));
  }
  ReplicaTotals replicas;
  candidate_tensor->for_each_check([&](const ReplicaCheck& check) { replicas.add(check); });
  replicas.store(result);
  if (by_cell) result.cells = by_cell->cells();
  if (result.total.largest) {
    result.largest_place = candidate_tensor->locate(result.total.largest->at);
  }
  result.bytes_read = reference_tensor->bytes_read() + candidate_tensor->bytes_read();
  return result;
}

}  // namespace ttrace::compare
