// Which ranks of a mesh have a tensor, from those that recorded it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "layout/manifest_merge.h"
#include "trace/manifest.h"

namespace ttrace::layout {

// The ranks of one mesh that have a manifest, and their coordinates. The others are lost: what they
// had is unknown.
class PresentRanks {
 public:
  // `ranks` ascending; those that do not lie on the mesh are left out. `mesh` must outlive this.
  PresentRanks(const trace::Mesh& mesh, const std::vector<std::uint64_t>& ranks);

  const trace::Mesh& mesh() const { return *mesh_; }
  // Rank -> coordinates.
  const std::map<std::uint64_t, std::vector<std::uint64_t>>& coordinates() const {
    return coordinates_;
  }
  // Whether any rank at this coordinate of the axis is present.
  bool any_at(std::size_t axis, std::uint64_t coordinate) const { return any_[axis][coordinate]; }

 private:
  const trace::Mesh* mesh_;
  std::map<std::uint64_t, std::vector<std::uint64_t>> coordinates_;
  std::vector<std::vector<bool>> any_;
};

// Sets the entry's `held_at` and `absent_on` from the ranks that recorded it, `recorders`,
// ascending.
//
// held_at names the axes of which not all coordinates have the tensor. The entry's own held_at is
// kept, and so is "only". All coordinates of an axis that cuts have the tensor. Coordinates of a
// partial axis of which every rank is lost count as having it: without their terms the value is
// unknown. Such coordinates of a replicating axis do not count: nothing is known of lost replicas.
//
// absent_on names the ranks without a shard that held_at and their own settings say they should
// have recorded, unless the shard is known to be empty. Throws an input error naming key and ranks
// if a rank has no shard and its manifest does not say what it was asked, if a rank has a shard
// that it should not, or if it does not lie on the mesh.
void set_ranks(trace::TensorEntry& entry, const std::vector<std::uint64_t>& recorders,
               const PresentRanks& present, const RunMerge& run);

}  // namespace ttrace::layout
