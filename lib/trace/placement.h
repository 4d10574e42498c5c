// How a tensor lies along one mesh axis: the placements of schemas/trace-v2.md. Their kinds are in
// placements/.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

#include "trace/placements/boxes.h"
#include "trace/placements/flat.h"
#include "trace/placements/kind.h"
#include "trace/placements/rows.h"
#include "trace/placements/segments.h"
#include "trace/placements/shard.h"
#include "trace/placements/whole.h"

namespace ttrace::trace {

template <PlacementKind... Kinds>
struct PlacementTable {
  using Any = std::variant<Kinds...>;

  // Calls visit(std::type_identity<Kind>{}) for every kind, in order.
  template <typename Visit>
  static void for_each(Visit visit) {
    (visit(std::type_identity<Kinds>{}), ...);
  }
};

// The table. The first kind is the default; of the kinds with one keyword, the plain one is last.
using PlacementKinds = PlacementTable<Replicate,  //
                                      Zigzag,     //
                                      Segments,   //
                                      Strided,    //
                                      Shard,      //
                                      Partial,    //
                                      Only,       //
                                      Flat,       //
                                      Boxes,      //
                                      Rows>;
using Placement = PlacementKinds::Any;

// The functions of placements/kind.h, called for the kind that `placement` is.

std::string to_string(const Placement& placement);
// With all numbers, so that the texts of different placements differ.
std::string describe_exactly(const Placement& placement);
std::string describe_over(const Placement& placement, const std::string& axis);
std::string json_text(const Placement& placement);

Sharing sharing(const Placement& placement);
// Whether coordinates of an axis with this placement have different elements.
bool cuts(const Placement& placement);
std::optional<std::uint64_t> cut_dimension(const Placement& placement);
bool gives_extents(const Placement& placement);
std::optional<std::string> misfit(const Placement& placement, const PlacedTensor& tensor);
void require_fitting_lists(const Placement& placement, std::uint64_t count);
// Checks the lists, too.
void apply_cut(const Placement& placement, std::uint64_t count, std::uint64_t index,
               std::vector<tensor::Ranges>& held);

}  // namespace ttrace::trace
