// Who holds a tensor, from who recorded it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "layout/manifest_merge.h"
#include "trace/manifest.h"

namespace ttrace::layout {

// The ranks of one mesh that are there to tell, and their coordinates. The others are lost: what
// they held, nobody can say.
class PresentRanks {
 public:
  // `ranks` ascending; those that do not lie on the mesh are left out. `mesh` must outlive this.
  PresentRanks(const trace::Mesh& mesh, const std::vector<std::uint64_t>& ranks);

  const trace::Mesh& mesh() const { return *mesh_; }
  // Rank -> coordinates.
  const std::map<std::uint64_t, std::vector<std::uint64_t>>& coordinates() const {
    return coordinates_;
  }
  // Whether any rank at this coordinate of the axis is there.
  bool any_at(std::size_t axis, std::uint64_t coordinate) const { return any_[axis][coordinate]; }

 private:
  const trace::Mesh* mesh_;
  std::map<std::uint64_t, std::vector<std::uint64_t>> coordinates_;
  std::vector<std::vector<bool>> any_;
};

// Sets the entry's `held_at` and `absent_on` from the ranks that recorded it, `holders`, ascending.
//
// held_at has the axes of which not all coordinates hold the tensor. What the entry's own says is
// taken as it is, and so is "only". An axis that cuts is held by all its coordinates. Of a partial
// axis, coordinates of which every rank is lost count as holding: without their summands the value
// is unknown, not another one. Of a replicating axis they do not: nothing can be known of copies
// that are gone.
//
// absent_on has the ranks that should have recorded a part by this (unless it is known to be empty)
// and by what they were told. Throws an input error naming key and ranks if a rank that does not
// say what it was told has no part, if one has a part that should not, or does not lie on the mesh.
void set_holders(trace::TensorEntry& entry, const std::vector<std::uint64_t>& holders,
                 const PresentRanks& present, const RunUnion& told);

}  // namespace ttrace::layout
