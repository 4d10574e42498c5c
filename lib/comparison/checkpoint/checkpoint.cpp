#include "comparison/checkpoint/checkpoint.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"
#include "comparison/checkpoint/checkpoint_lines.h"
#include "comparison/measure_pairs.h"
#include "layout/mesh.h"

namespace ttrace::comparison {
namespace {

base::InputError misfit_error(const trace::TensorKey& key, const char* what) {
  return base::input_error("what it says of ", to_string(key), " has ", what);
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

  void check(const measure::TileStats& stats) const {
    if (stats.largest) check_index(stats.largest->at);
    if (stats.first_nonfinite_difference) check_index(*stats.first_nonfinite_difference);
  }

  void check(const std::vector<measure::BlockStats>& blocks) const {
    for (const measure::BlockStats& block : blocks) {
      for (const tensor::Box& box : block.owner->boxes) {
        if (!lies_within(box)) throw misfit_error(pair_.key, "a box that is not of the tensor");
      }
      if (block.owner->boxes.empty() && !says_nothing(block.stats)) {
        throw misfit_error(pair_.key, "a shard that lies nowhere");
      }
      for (const std::uint64_t rank : block.owner->ranks) check_rank(rank);
      check(block.stats);
    }
  }

  void check(const measure::ReplicaDifference& replicas, bool differ) const {
    if (differ && replicas.classes.empty()) {
      throw misfit_error(pair_.key, "copies that differ on no rank");
    }
    const trace::TensorEntry* part = measure::stored_at(*pair_.candidate, replicas.path);
    if (differ && part == nullptr) {
      throw misfit_error(pair_.key, "copies of no part of the tensor");
    }
    for (const std::vector<std::uint64_t>& members : replicas.classes) {
      if (members.empty()) throw misfit_error(pair_.key, "copies on no rank");
      for (const std::uint64_t rank : members) {
        require_held(part != nullptr && checks_.ranks_of(part->mesh).contains(rank));
      }
    }
  }

  void check(const std::optional<measure::ElementPlace>& place) const {
    if (!place) return;
    check_rank(place->rank);
    if (place->local.size() > tensor::kMostDimensions) {
      throw misfit_error(pair_.key, "too many dimensions");
    }
  }

  void check_index(const tensor::Shape& at) const {
    const auto is_below = [](std::uint64_t index, std::uint64_t extent) { return index < extent; };
    if (at.size() != shape_.size() || !std::equal(at.begin(), at.end(), shape_.begin(), is_below)) {
      throw misfit_error(pair_.key, "an index that is not of the tensor");
    }
  }

 private:
  static bool says_nothing(const measure::TileStats& stats) {
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
    require_held(std::any_of(ranks_.begin(), ranks_.end(),
                             [rank](const auto* ranks) { return ranks->contains(rank); }));
  }

  void require_held(bool by_the_rank) const {
    if (!by_the_rank) throw misfit_error(pair_.key, "a rank that does not hold it");
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
  const measure::Measurement& measurement = finished.measurement;
  of_pair.check(measurement.total);
  of_pair.check(measurement.blocks);
  of_pair.check(measurement.replicas, measurement.replicas_differ);
  of_pair.check(measurement.largest_place);
  const auto& noise = finished.noise;
  if (noise) {
    if (noise->grid.shape() != pair.reference->shape) {
      throw misfit_error(pair.key, "noise of another shape");
    }
    if (noise->norms.empty() || noise->norms.size() != noise->largest.size()) {
      throw misfit_error(pair.key, "noise of no run");
    }
    if (!noise->cells.empty() && noise->cells.size() != noise->grid.cells()) {
      throw misfit_error(pair.key, "noise of another grid");
    }
    if (!noise->coherence.empty() && noise->coherence.size() != 1 + noise->grid.parts().size()) {
      throw misfit_error(pair.key, "a coherence of another grid");
    }
  }
  if (measurement.cells.size() != (noise ? noise->grid.cells() : 0)) {
    throw misfit_error(pair.key, "sums of another grid");
  }
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

namespace {

FinishedMeasurement measured_of(const TensorComparison& result) {
  FinishedMeasurement finished;
  if (result.comparison) {
    finished.measurement = result.comparison->measurement;
    if (result.comparison->noise) finished.noise = *result.comparison->noise;
  } else {
    finished.unreadable = result.reason;
  }
  return finished;
}

}  // namespace

bool Checkpoint::restore(Finished finished) {
  Id id = id_of(finished);
  return known_.insert_or_assign(std::move(id), std::move(finished)).second;
}

namespace {

// Whether it says why something could not be read, replayed or judged.
bool is_problem(const Finished& finished) {
  return std::visit(
      [](const auto& what) {
        if constexpr (requires { what.unreadable; }) {
          return !what.unreadable.empty();
        } else {
          return !what.problem.empty();
        }
      },
      finished.what);
}

}  // namespace

void Checkpoint::restore_one_of(Finished finished) {
  const auto found = known_.find(id_of(finished));
  if (found == known_.end() || (is_problem(found->second) && !is_problem(finished))) {
    restore(std::move(finished));
    return;
  }
  if (is_problem(finished) || finished_line(found->second) == finished_line(finished)) return;
  throw base::input_error("is not what another part measured of ",
                          base::printable(to_string(finished.key)),
                          ": the files of one name differ on their machines");
}

std::optional<Finished> Checkpoint::taken(const Id& id) {
  const std::lock_guard lock(mutex_);
  auto found = known_.extract(id);
  if (found.empty()) return std::nullopt;
  return std::move(found.mapped());
}

void Checkpoint::keep(const Finished& finished, std::string line) {
  lines_.insert_or_assign(id_of(finished), std::move(line));
}

void Checkpoint::record(const Finished& finished) {
  if (whole_) return whole_->record({finished.key, finished.what, of_});
  if (!on_line_ && !keep_) return;
  std::string line = finished_line(finished);
  const std::lock_guard lock(mutex_);
  if (on_line_) on_line_(line);
  if (keep_) keep(finished, std::move(line));
}

void Checkpoint::record_again(const Finished& finished) {
  if (whole_) return whole_->record_again({finished.key, finished.what, of_});
  if (!keep_) return;
  std::string line = finished_line(finished);
  const std::lock_guard lock(mutex_);
  keep(finished, std::move(line));
}

std::vector<std::string> Checkpoint::lines() const {
  std::vector<std::string> lines;
  lines.reserve(lines_.size());
  for (const auto& [id, line] : lines_) lines.push_back(line);
  return lines;
}

void Checkpoint::require_all_taken() const {
  for (const auto& [id, finished] : known_) {
    if (!std::holds_alternative<FinishedMeasurement>(finished.what)) continue;
    throw base::input_error("has ", base::printable(to_string(finished.key)),
                            ", which is not measured in this comparison");
  }
}

void restore_measurements(Checkpoint& work, const trace::Source& candidate,
                          std::vector<TensorComparison>& results) {
  if (work.empty()) return;
  FinishedChecks checks(candidate);
  for (TensorComparison& result : results) {
    if (!is_to_be_measured(result)) continue;
    auto finished = work.take<FinishedMeasurement>(result.key);
    if (!finished) continue;
    checks.require_fits(*finished, result);
    if (!finished->unreadable.empty()) {
      mark_unreadable(result, finished->unreadable);
    } else {
      ComparedNumbers& numbers = result.comparison.emplace();
      numbers.measurement = std::move(finished->measurement);
      numbers.noise = std::move(finished->noise);
    }
    work.record_again({result.key, measured_of(result)});
  }
}

void record_measurement(Checkpoint& work, const TensorComparison& result) {
  work.record({result.key, measured_of(result)});
}

}  // namespace ttrace::comparison
