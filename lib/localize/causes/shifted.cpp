#include <algorithm>
#include <cmath>
#include <set>

#include "base/functions.h"
#include "base/message.h"
#include "localize/causes/trial.h"

namespace ttrace::localize {
namespace {

constexpr std::int64_t kMostRolled = 2;  // after the cut: labels are rolled by one
// A distance that is estimated from sketches may be this many times too large.
constexpr double kSlackOfShift = 3;
constexpr double kNoDifference = 1e-12;  // of the squared error: such a slice is as it was

struct Shift {
  SliceMap source;
  base::Message how;
};

double estimate2(const std::vector<SliceSums>& slices, const SliceMap& source) {
  double left2 = 0;
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i] == kUnknown) continue;
    const auto from = static_cast<std::size_t>(source[i]);
    left2 += squared_distance(slices[i].candidate, slices[from].reference);
  }
  return left2;
}

std::uint64_t places_of(std::int64_t by) { return static_cast<std::uint64_t>(std::abs(by)); }

// All slices, or those of each of `chunks` chunks, are moved; `wraps`: around the end.
base::Message describe_move(std::uint64_t chunks, std::int64_t by, bool wraps) {
  base::Message how{chunks == 1
                        ? "all slices are moved {direction} by {places:place}[, around {around}]"
                        : "the slices of each chunk are moved {direction} by {places:place} within "
                          "{chunks} chunks[, around {around}]",
                    {{"direction", by > 0 ? "down" : "up"}, {"places", places_of(by)}}};
  if (chunks > 1) how.values.emplace_back("chunks", chunks);
  if (wraps) how.values.emplace_back("around", "the end");
  return how;
}

// Slice i of every chunk takes slice i + `by` of the same chunk; at the border it is wrapped, or
// (`wraps` is false) unknown.
SliceMap moved_in_chunks(std::size_t extent, std::size_t length, std::int64_t by, bool wraps) {
  SliceMap source(extent, kUnknown);
  const auto n = static_cast<std::int64_t>(length);
  for (std::size_t i = 0; i < extent; ++i) {
    const auto within = static_cast<std::int64_t>(i % length);
    const std::int64_t from = within + by;
    const bool inside = from >= 0 && from < n;
    if (!inside && !wraps) continue;
    source[i] = static_cast<std::int64_t>(i) - within + (from % n + n) % n;
  }
  return source;
}

// The indices along `dim` that each group of ranks has, in their order there.
std::vector<std::vector<std::int64_t>> local_orders(const Case& the_case, std::size_t dim) {
  std::set<std::vector<std::int64_t>> orders;
  for (const measure::BlockStats& block : the_case.measurement->blocks) {
    std::vector<std::int64_t> order;
    std::set<std::uint64_t> starts;
    for (const tensor::Box& box : block.owner->boxes) {
      if (!starts.insert(box.origin[dim]).second) continue;
      for (std::uint64_t i = 0; i < box.extent[dim]; ++i) {
        order.push_back(static_cast<std::int64_t>(box.origin[dim] + i));
      }
    }
    orders.insert(std::move(order));
  }
  return {orders.begin(), orders.end()};
}

// Where each position's value stands in the reference, if the reference was rolled by `by` and then
// cut over ranks, but the candidate was cut and then rolled on each rank. Unknown where a value
// does not stand in the reference.
SliceMap rolled_after_cut(const std::vector<std::vector<std::int64_t>>& orders, std::size_t extent,
                          std::int64_t by) {
  SliceMap source(extent, kUnknown);
  for (const std::vector<std::int64_t>& order : orders) {
    const auto n = static_cast<std::int64_t>(order.size());
    for (std::int64_t i = 0; i < n; ++i) {
      const std::int64_t from = order[static_cast<std::size_t>(((i + by) % n + n) % n)] - by;
      const bool known = from >= 0 && from < static_cast<std::int64_t>(extent);
      source[static_cast<std::size_t>(order[static_cast<std::size_t>(i)])] =
          known ? from : kUnknown;
    }
  }
  return source;
}

struct Changed {
  std::size_t moved = 0;
  std::size_t unknown = 0;
};

// Whether the slices that are said to have moved look as if: that most of them differ from the
// reference's. Slices that are alike may stand anywhere.
bool most_moved_differ(const std::vector<SliceSums>& slices, const Shift& shift,
                       const Profile& profile) {
  std::size_t moved = 0;
  std::size_t differ = 0;
  for (std::size_t i = 0; i < slices.size(); ++i) {
    if (shift.source[i] == kUnknown || shift.source[i] == static_cast<std::int64_t>(i)) continue;
    ++moved;
    differ += slices[i].d2 > kNoDifference * profile.d2 ? 1 : 0;
  }
  return 2 * differ >= moved;
}

Changed changed_by(const SliceMap& source) {
  Changed changed;
  for (std::size_t i = 0; i < source.size(); ++i) {
    changed.unknown += source[i] == kUnknown ? 1 : 0;
    changed.moved += source[i] != kUnknown && source[i] != static_cast<std::int64_t>(i) ? 1 : 0;
  }
  return changed;
}

std::vector<Shift> shifts_along(const Case& the_case, std::size_t dim, std::uint64_t extent) {
  std::vector<Shift> shifts;
  std::set<std::uint64_t> chunks{1};
  for (const std::uint64_t size : axis_sizes(the_case)) chunks.insert({size, 2 * size});
  for (const std::uint64_t count : chunks) {
    if (extent % count != 0 || extent / count < 4) continue;
    const auto most = static_cast<std::int64_t>(kMostPlaces);
    for (std::int64_t by = -most; by <= most; ++by) {
      if (by == 0 || !is_few_places(places_of(by), extent / count)) continue;
      for (const bool wraps : {true, false}) {
        shifts.push_back(
            {moved_in_chunks(extent, extent / count, by, wraps), describe_move(count, by, wraps)});
      }
    }
  }
  const auto orders = local_orders(the_case, dim);
  for (std::int64_t by = -kMostRolled; by <= kMostRolled && orders.size() > 1; ++by) {
    if (by == 0) continue;
    SliceMap source = rolled_after_cut(orders, extent, by);
    const Changed changed = changed_by(source);
    if (changed.moved == 0 || changed.unknown > changed.moved) continue;
    base::Message how{
        "rolled by {places:place} after the cut into the ranks' shards, not before: {slices} "
        "slices "
        "at the shards' borders hold another",
        {{"places", places_of(by)}, {"slices", std::uint64_t{changed.moved}}}};
    shifts.push_back({std::move(source), std::move(how)});
  }
  return shifts;
}

}  // namespace

std::vector<Cause> find_shifted(const Case& the_case) {
  const Profile* profile = profile_of(the_case);
  if (profile == nullptr) return {};
  const tensor::Shape& shape = the_case.reference.view->shape;
  const double most = the_case.exact ? 0 : kSlackOfShift * the_case.tolerance.allowed_norm();
  const double most2 = std::max(most * most, profile->d2 * kNoDifference);
  for (std::size_t dim = 0; dim < shape.size(); ++dim) {
    const std::vector<SliceSums>& slices = profile->slices[dim];
    if (slices.size() < 4) continue;
    for (const Shift& shift : shifts_along(the_case, dim, shape[dim])) {
      const double left2 = estimate2(slices, shift.source);
      const Changed changed = changed_by(shift.source);
      if (!most_moved_differ(slices, shift, *profile)) continue;
      if (left2 > most2) {
        if (changed.unknown == 0) reject(the_case, "shifted", std::sqrt(left2));
        continue;
      }
      const MappedDistance found = distance_when_mapped(the_case, dim, shift.source);
      if (!explains(the_case, found.left)) {
        reject(the_case, "shifted", found.left);
        continue;
      }
      // Slices of which the hypothesis says nothing must not be most of the difference.
      const double whole = difference_of(the_case);
      if (found.unknown * found.unknown > whole * whole / 2) continue;
      base::Message evidence{"along dimension {dim} {how}[, and of {unknown} nothing is known]",
                             {{"dim", std::uint64_t{dim}}, {"how", base::render(shift.how)}}};
      if (changed.unknown > 0) {
        evidence.values.emplace_back("unknown", std::uint64_t{changed.unknown});
      }
      Cause cause = cause_that_leaves(the_case, found.left, "shifted", "", evidence,
                                      {shift.how.values.begin(), shift.how.values.end()});
      cause.unexplained =
          relative_to_reference(the_case, base::hypotenuse(found.left, found.unknown));
      return {std::move(cause)};
    }
  }
  return {};
}

}  // namespace ttrace::localize
