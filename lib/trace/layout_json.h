// Meshes, placements and other parts of a tensor's entry in JSON documents: the manifest's, and
// those of layout rules. All functions throw an input error at the value.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/strict_json.h"
#include "trace/manifest.h"

namespace ttrace::trace {

tensor::DType dtype_from(const base::JsonCursor& value);
// In which something was computed: "tf32" as well.
tensor::DType precision_from(const base::JsonCursor& value);
Kind kind_from(const base::JsonCursor& value);
// Throws if no tensor can have the shape.
tensor::Shape shape_from(const base::JsonCursor& value, tensor::DType dtype);

// Returns the mesh that the member "mesh" of `object` names, and sets `name` to that; without the
// member, the mesh called `name`.
const Mesh& find_mesh(const base::JsonCursor& object, const std::map<std::string, Mesh>& meshes,
                      std::string& name);

// Throws on an axis of no size or that stands twice, and on ranks that are not one for each
// coordinate.
Mesh mesh_from(const base::JsonCursor& object);

// A placement as the document spells it. Throws on unknown ones and on members that do not belong
// together; whether it fits a tensor is for check_placement.
Placement placement_from(const base::JsonCursor& value);

// Throws at `value` if the placement on `axis` cannot belong to `entry` (dtype, shape and held_at
// are looked at): a dimension or an axis that does not exist, a coordinate beyond the axis, a
// partial sum of integers. Whether its numbers add up is layout's to say.
void check_placement(const Placement& placement, const std::string& axis, const TensorEntry& entry,
                     const Mesh& mesh, const base::JsonCursor& value);

// The coordinates of `axis` at which a tensor is held, ascending; throws if they are not.
std::vector<std::uint64_t> held_coordinates_from(const base::JsonCursor& list,
                                                 const std::string& axis, const Mesh& mesh);

// Reads the members "held_at" and "placements" of `object`. The entry has its type and shape.
void read_layout(const base::JsonCursor& object, const Mesh& mesh, TensorEntry& entry);

}  // namespace ttrace::trace
