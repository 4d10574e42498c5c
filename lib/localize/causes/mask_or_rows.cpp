#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/display_limits.h"
#include "base/text.h"
#include "layout/mesh.h"
#include "localize/causes/trial.h"

namespace ttrace::localize {
namespace {

constexpr double kMostOfErrorInMask = 0.99;
constexpr double kMostIndices = 0.75;  // the share of indices that may be wrong
constexpr std::size_t kFewestIndicesOfMask = 4;
// The largest ratio of the root mean square error at an index that counts as right to that at one
// that counts as wrong.
constexpr double kMostElsewhere = 0.05;

struct Wrong {
  std::vector<std::uint64_t> indices;  // ascending
  double share = 0;                    // of the squared error that they hold
  double elsewhere2 = 0;               // Σ (C - R)² of all others
};

// The indices that are wrong while others are right; nothing if no gap separates the two.
std::optional<Wrong> wrong_indices(const std::vector<double>& d2) {
  if (d2.size() < kFewestIndicesOfMask) return std::nullopt;
  const double all = std::accumulate(d2.begin(), d2.end(), 0.0);
  const double largest = *std::max_element(d2.begin(), d2.end());
  if (!(all > 0)) return std::nullopt;
  // Wrong indices may differ much in their error; right ones have only rounding.
  const double least = kMostElsewhere * kMostElsewhere * largest;
  Wrong wrong;
  double smallest = largest;
  double elsewhere = 0;
  for (std::size_t i = 0; i < d2.size(); ++i) {
    if (d2[i] > least) {
      wrong.indices.push_back(i);
      smallest = std::min(smallest, d2[i]);
    } else {
      wrong.elsewhere2 += d2[i];
      elsewhere = std::max(elsewhere, d2[i]);
    }
  }
  wrong.share = 1 - wrong.elsewhere2 / all;
  const bool few =
      static_cast<double>(wrong.indices.size()) <= kMostIndices * static_cast<double>(d2.size());
  const bool gap = elsewhere <= kMostElsewhere * kMostElsewhere * smallest;
  if (!few || !gap || wrong.share < kMostOfErrorInMask) return std::nullopt;
  return wrong;
}

// "0 to 14, 20": ascending indices as ranges, the first few.
std::string describe_index_ranges(const std::vector<std::uint64_t>& indices) {
  std::string text;
  std::size_t ranges = 0;
  for (std::size_t i = 0; i < indices.size(); ++ranges) {
    const std::uint64_t first = indices[i];
    while (i + 1 < indices.size() && indices[i + 1] == indices[i] + 1) ++i;
    const std::uint64_t last = indices[i++];
    if (ranges >= base::kShown.names) continue;
    text +=
        base::concat(ranges > 0 ? ", " : "", first, last > first ? base::concat(" to ", last) : "");
  }
  return ranges > base::kShown.names ? text + ", ..." : text;
}

base::Message describe_wrong(const Wrong& wrong, std::size_t of, const std::string& what) {
  return {
      "{percent} % of the squared error is in {wrong} of {of} {what} ({which}), and the others are "
      "right",
      {{"percent", 100 * wrong.share},
       {"wrong", std::uint64_t{wrong.indices.size()}},
       {"of", std::uint64_t{of}},
       {"what", what},
       {"which", describe_index_ranges(wrong.indices)}}};
}

std::optional<Cause> other_mask(const Case& the_case, const Profile& profile) {
  const double masked = profile.vanished_d2 + profile.appeared_d2;
  if (profile.vanished == 0 || profile.appeared == 0) return std::nullopt;
  const double left = std::sqrt(profile.other_d2);
  if (!(masked >= kMostOfErrorInMask * profile.d2) || !explains(the_case, left, {1, 0, true})) {
    reject(the_case, "mask_or_rows", left);
    return std::nullopt;
  }
  return cause_that_leaves(
      the_case, left, "mask_or_rows", "",
      {"another mask: {vanished} elements are zero that are not in {reference}, and {appeared} are "
       "not that are zero there; all others agree",
       {{"vanished", profile.vanished}, {"appeared", profile.appeared}}});
}

}  // namespace

std::vector<Cause> find_mask_or_rows(const Case& the_case) {
  const Profile* profile = profile_of(the_case);
  if (profile == nullptr) return {};
  if (const auto mask = other_mask(the_case, *profile)) return {*mask};
  const tensor::Shape& shape = the_case.reference.view->shape;
  std::optional<Cause> best;
  double fewest = 1;
  const auto consider = [&](const std::vector<double>& d2, const base::Message& what) {
    const auto wrong = wrong_indices(d2);
    if (!wrong) return;
    const double left = std::sqrt(wrong->elsewhere2);
    if (!explains(the_case, left, {1, 0, true})) return reject(the_case, "mask_or_rows", left);
    const double part = static_cast<double>(wrong->indices.size()) / static_cast<double>(d2.size());
    if (part >= fewest) return;
    fewest = part;
    best = cause_of(
        the_case, "mask_or_rows", "", describe_wrong(*wrong, d2.size(), base::render(what)),
        relative_to_reference(the_case, left), {what.values.begin(), what.values.end()});
  };
  for (std::size_t dim = 0; dim < shape.size(); ++dim) {
    std::vector<double> d2;
    for (const SliceSums& slice : profile->slices[dim]) d2.push_back(slice.d2);
    consider(d2, shape.size() == 1 ? base::Message{"elements", {}}
                                   : base::Message{"indices along dimension {dim}",
                                                   {{"dim", std::uint64_t{dim}}}});
  }
  consider(profile->rows, base::Message{"rows of the last dimension", {}});
  if (!best) return {};
  return {*best};
}

}  // namespace ttrace::localize
