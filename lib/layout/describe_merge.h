// Describes ranks, meshes and differences between the manifests of ranks, for people.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "trace/manifest.h"

namespace ttrace::layout {

// "rank 3", "ranks {0, 7}", with "... 12 in all" where there are many.
std::string describe_ranks(const std::vector<std::uint64_t>& ranks);

// "pp 2 × tp 2", "one rank".
std::string describe_mesh(const trace::Mesh& mesh);

// With all its digits: two numbers that differ read differently.
std::string exact_number(double value);

// All meshes by name.
std::string describe_meshes(const std::map<std::string, trace::Mesh>& meshes);

// A member of a tensor's entry about which two ranks disagree, and the value of each.
struct EntryDifference {
  std::string member;
  std::string first;
  std::string second;
};

// Returns nothing if the entries describe one tensor alike. `order`, `position` and `computed_in`
// may differ: a stage may compute in a wider type. An axis without a placement replicates.
std::optional<EntryDifference> entry_difference(const trace::TensorEntry& first,
                                                const trace::TensorEntry& second);

}  // namespace ttrace::layout
