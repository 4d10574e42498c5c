#include "engine/finished_checks.h"

#include <algorithm>

#include "base/error.h"
#include "layout/mesh_map.h"

namespace ttrace::engine {
namespace {

void require(bool fits, const trace::TensorKey& key, const char* what) {
  if (!fits) throw base::input_error("what it says of ", to_string(key), " has ", what);
}

}  // namespace

class FinishedChecks::OfPair {
 public:
  OfPair(FinishedChecks& checks, const Pair& pair)
      : checks_(checks), pair_(pair), shape_(pair.reference->shape) {
    for (const trace::TensorEntry* entry : layout::stored_in(*pair.candidate)) {
      ranks_.insert(&checks.ranks_of(entry->mesh));
    }
  }

  void check(const compare::TileStats& stats) const {
    if (stats.largest) check_index(stats.largest->at);
    if (stats.first_nonfinite_difference) check_index(*stats.first_nonfinite_difference);
  }

  void check(const std::vector<compare::BlockStats>& blocks) const {
    for (const compare::BlockStats& block : blocks) {
      for (const tensor::Box& box : block.boxes) {
        require(lies_within(box), pair_.key, "a box that is not of the tensor");
      }
      require(!block.boxes.empty() || says_nothing(block.stats), pair_.key,
              "a shard that lies nowhere");
      for (const std::uint64_t rank : block.ranks) check_rank(rank);
      check(block.stats);
    }
  }

  void check(const compare::ReplicaDifference& replicas, bool differ) const {
    require(!differ || !replicas.classes.empty(), pair_.key, "copies that differ on no rank");
    const trace::TensorEntry* part = compare::stored_at(*pair_.candidate, replicas.path);
    require(!differ || part != nullptr, pair_.key, "copies of no part of the tensor");
    for (const std::vector<std::uint64_t>& members : replicas.classes) {
      require(!members.empty(), pair_.key, "copies on no rank");
      for (const std::uint64_t rank : members) {
        const bool known = part != nullptr && checks_.ranks_of(part->mesh).contains(rank);
        require(known, pair_.key, "a rank that does not hold it");
      }
    }
  }

  void check(const std::optional<compare::Place>& place) const {
    if (!place) return;
    check_rank(place->rank);
    require(place->local.size() <= tensor::kMostDimensions, pair_.key, "too many dimensions");
  }

  void check_index(const tensor::Shape& at) const {
    require(at.size() == shape_.size() && std::equal(at.begin(), at.end(), shape_.begin(),
                                                     [](std::uint64_t index, std::uint64_t extent) {
                                                       return index < extent;
                                                     }),
            pair_.key, "an index that is not of the tensor");
  }

 private:
  static bool says_nothing(const compare::TileStats& stats) {
    return stats.elements == 0 && stats.sum_d2 == 0 && !stats.largest && stats.unequal == 0 &&
           stats.nonfinite_different == 0;
  }

  bool lies_within(const tensor::Box& box) const {
    if (box.origin.size() != shape_.size() || box.extent.size() != shape_.size()) return false;
    for (std::size_t d = 0; d < shape_.size(); ++d) {
      if (box.extent[d] > shape_[d] || box.origin[d] > shape_[d] - box.extent[d]) return false;
    }
    return true;
  }

  void check_rank(std::uint64_t rank) const {
    const bool known = std::any_of(ranks_.begin(), ranks_.end(),
                                   [rank](const auto* ranks) { return ranks->contains(rank); });
    require(known, pair_.key, "a rank that does not hold it");
  }

  FinishedChecks& checks_;
  const Pair& pair_;
  const tensor::Shape& shape_;
  std::set<const std::set<std::uint64_t>*> ranks_;
};

const std::set<std::uint64_t>& FinishedChecks::ranks_of(const std::string& mesh) {
  const auto [found, fresh] = ranks_.try_emplace(mesh);
  if (fresh) {
    const trace::Mesh& axes = candidate_.manifest().meshes.at(mesh);
    for (std::uint64_t i = 0; i < layout::mesh_size(axes); ++i) {
      found->second.insert(layout::rank_at(axes, i));
    }
  }
  return found->second;
}

void FinishedChecks::require_fits(const FinishedMeasurement& finished, const Pair& pair) {
  if (!finished.unreadable.empty()) return;
  const OfPair of_pair(*this, pair);
  const compare::Measurement& measurement = finished.measurement;
  of_pair.check(measurement.total);
  of_pair.check(measurement.blocks);
  of_pair.check(measurement.replicas, measurement.replicas_differ);
  of_pair.check(measurement.largest_place);
  const auto& noise = finished.noise;
  if (noise) {
    require(noise->grid.shape() == pair.reference->shape, pair.key, "noise of another shape");
    require(!noise->norms.empty() && noise->norms.size() == noise->largest.size(), pair.key,
            "noise of no run");
    require(noise->cells.empty() || noise->cells.size() == noise->grid.cells(), pair.key,
            "noise of another grid");
    require(noise->coherence.empty() || noise->coherence.size() == 1 + noise->grid.parts().size(),
            pair.key, "a coherence of another grid");
  }
  require(measurement.cells.size() == (noise ? noise->grid.cells() : 0), pair.key,
          "sums of another grid");
}

void FinishedChecks::require_fits(const FinishedReplay& finished, const Pair& pair) {
  if (!finished.problem.empty()) return;
  const OfPair of_pair(*this, pair);
  of_pair.check(finished.measured.total);
  of_pair.check(finished.measured.blocks);
  of_pair.check(finished.measured.largest_place);
  if (const auto& worst = finished.measured.worst) {
    of_pair.check_index(worst->at);
    of_pair.check(worst->place);
  }
}

}  // namespace ttrace::engine
