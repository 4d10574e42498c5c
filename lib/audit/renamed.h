// A specification under the names of another implementation, as a map of a comparison has them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "layout/map_rules.h"
#include "specification/specification.h"

namespace ttrace::audit {

struct RenamedSpecification {
  specification::Specification specification;
  // Tensors that a rule splits, joins, trims, pads or transposes: no name alone makes them meet.
  std::uint64_t left = 0;
};

// Gives every tensor that a rule renames, and does nothing else with, its new name. Throws an input
// error that names `file` if two tensors would have one name.
RenamedSpecification renamed(const specification::Specification& specification,
                             const std::string& file, const std::vector<layout::MapRule>& rules);

}  // namespace ttrace::audit
