#include "localize/causes/block_mapping.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>

#include "base/text.h"
#include "localize/causes/near_blocks.h"

namespace ttrace::localize {
namespace {

constexpr std::uint64_t kMostBlocks = 64;
// Up to this many slices, each slice is also tried as a block of its own.
constexpr std::uint64_t kMostSingleSlices = 2048;
// Where there are more blocks than this, each must have at least as many elements.
constexpr std::uint64_t kFewestElementsOfBlock = 8;
// Several blocks are alike if the second nearest is not this many times as far, squared.
constexpr double kFewestTimesFarther = 4;
// Differences of two sums of sketches, over all numbers of blocks that are tried.
constexpr double kMostDifferences = 0x1p28;
// A distance that is estimated from sketches may be this many times too large.
constexpr double kSlackOfBlocks = 3;
constexpr std::size_t kMostBlocksNamed = 16;

std::vector<std::uint64_t> block_counts(std::uint64_t extent, std::uint64_t elements) {
  std::vector<std::uint64_t> counts;
  double work = 0;
  for (std::uint64_t n = 2; n <= extent; ++n) {
    const bool small = n <= kMostBlocks || (n == extent && n <= kMostSingleSlices);
    if (!small || extent % n != 0) continue;
    if (n > kFewestElementsOfBlock && elements / n < kFewestElementsOfBlock) continue;
    work += static_cast<double>(n * extent);
    if (work > kMostDifferences / kSketchSize) break;
    counts.push_back(n);
  }
  return counts;
}

// Σ over the slices of two blocks of their squared distance.
double block_distance(const std::vector<SliceSums>& slices, std::uint64_t length,
                      std::uint64_t of_c, std::uint64_t of_r) {
  double sum = 0;
  for (std::uint64_t i = 0; i < length; ++i) {
    sum +=
        squared_distance(slices[of_c * length + i].candidate, slices[of_r * length + i].reference);
  }
  return sum;
}

struct Guess {
  std::vector<std::size_t> source;
  double left2 = 0;  // estimated
};

// Nothing if a block that moved is like several blocks of the reference. `twins`: of several that
// are equal to it, as the rows of a token that a router sends to two experts, each is taken once.
std::optional<Guess> guess(const std::vector<SliceSums>& slices, const NearBlocks& near_blocks,
                           std::uint64_t count, double small2, bool twins) {
  const std::vector<std::vector<std::size_t>> near = near_blocks.find(count);
  const std::uint64_t length = slices.size() / count;
  const double small = small2 / static_cast<double>(count);
  std::vector<bool> taken(count, false);
  for (std::uint64_t i = 0; twins && i < count; ++i) {
    taken[i] = block_distance(slices, length, i, i) <= small;
  }
  Guess made;
  for (std::uint64_t i = 0; i < count; ++i) {
    double best = std::numeric_limits<double>::infinity();
    double second = best;
    std::size_t at = 0;
    const double own = block_distance(slices, length, i, i);
    std::optional<std::size_t> free;  // equal to it, and not taken
    for (const std::size_t j : near[i]) {
      const double distance = j == i ? own : block_distance(slices, length, i, j);
      if (!free && distance <= small && !taken[j]) free = j;
      if (distance < best) {
        second = best;
        best = distance;
        at = j;
      } else {
        second = std::min(second, distance);
      }
    }
    if (own <= best + small) {
      at = i;
      best = own;
    } else if (second <= kFewestTimesFarther * best + small) {
      if (!twins || !free) return std::nullopt;
      at = *free;
      taken[at] = true;
    }
    made.source.push_back(at);
    made.left2 += best;
  }
  return made;
}

bool is_identity(const std::vector<std::size_t>& source) {
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i] != i) return false;
  }
  return true;
}

SliceMap slice_map(const std::vector<std::size_t>& source, std::uint64_t extent) {
  const std::uint64_t length = extent / source.size();
  SliceMap map;
  for (const std::size_t block : source) {
    for (std::uint64_t i = 0; i < length; ++i) {
      map.push_back(static_cast<std::int64_t>(block * length + i));
    }
  }
  return map;
}

// Coordinate i of n has chunks i and 2n-1-i; what lies one after the other on the ranks.
std::vector<std::size_t> zigzag(std::size_t ranks) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < ranks; ++i) {
    order.push_back(i);
    order.push_back(2 * ranks - 1 - i);
  }
  return order;
}

std::vector<std::size_t> inverse(const std::vector<std::size_t>& order) {
  std::vector<std::size_t> back(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) back[order[i]] = i;
  return back;
}

// Rows of an a × b grid read by columns.
std::vector<std::size_t> interleaved(std::size_t a, std::size_t b) {
  std::vector<std::size_t> order;
  for (std::size_t j = 0; j < b; ++j) {
    for (std::size_t i = 0; i < a; ++i) order.push_back(i * b + j);
  }
  return order;
}

}  // namespace

bool BlockMapping::is_permutation() const {
  return std::set(source.begin(), source.end()).size() == source.size();
}

std::optional<BlockMapping> find_block_mapping(const Case& the_case, bool permutation) {
  const Profile* profile = profile_of(the_case);
  if (profile == nullptr) return std::nullopt;
  const tensor::Shape& shape = the_case.reference.view->shape;
  const std::uint64_t elements = tensor::element_count(shape).value_or(0);
  const double allowed = the_case.exact ? 0 : the_case.tolerance.allowed_norm();
  const char* name = permutation ? "wrong_order" : "duplicated_shard";
  for (std::size_t dim = 0; dim < shape.size(); ++dim) {
    const std::vector<SliceSums>& slices = profile->slices[dim];
    if (slices.empty()) continue;
    const NearBlocks near_blocks(slices, the_case.backend);
    for (const std::uint64_t count : block_counts(shape[dim], elements)) {
      const double small2 = std::min(allowed * allowed, profile->d2 / 16);
      const bool twins = permutation && count == shape[dim] && count > kFewestElementsOfBlock;
      const auto guessed = guess(slices, near_blocks, count, small2, twins);
      if (!guessed || is_identity(guessed->source)) continue;
      BlockMapping mapping{dim, guessed->source, std::sqrt(guessed->left2)};
      if (mapping.is_permutation() != permutation) continue;
      const double most = kSlackOfBlocks * allowed;
      if (guessed->left2 > std::max(most * most, profile->d2 * 1e-12)) {
        reject(the_case, name, mapping.left);
        continue;
      }
      const double left =
          distance_when_mapped(the_case, dim, slice_map(mapping.source, shape[dim])).left;
      if (explains(the_case, left)) {
        mapping.left = left;
        return mapping;
      }
      reject(the_case, name, left);
    }
  }
  return std::nullopt;
}

base::Message describe_permutation(const BlockMapping& mapping) {
  const std::vector<std::size_t>& source = mapping.source;
  std::vector<std::uint64_t> moved;
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i] != i) moved.push_back(i);
  }
  const std::uint64_t n = mapping.blocks();
  if (moved.size() == 2) {
    return {"blocks {block} and {other_block} of {blocks} are swapped",
            {{"block", moved[0]}, {"other_block", moved[1]}, {"blocks", n}}};
  }
  if (n % 2 == 0 && source == zigzag(n / 2)) {
    return {
        "{blocks} blocks are in zigzag order over {zigzag_over} ranks, {reference}'s in natural "
        "order",
        {{"blocks", n}, {"zigzag_over", n / 2}}};
  }
  if (n % 2 == 0 && source == inverse(zigzag(n / 2))) {
    return {
        "{blocks} blocks are in natural order, {reference}'s in zigzag order over {zigzag_over} "
        "ranks",
        {{"blocks", n}, {"zigzag_over", n / 2}}};
  }
  for (std::uint64_t a = 2; a <= n / 2; ++a) {
    if (n % a == 0 && source == interleaved(a, n / a)) {
      return {
          "{blocks} blocks are interleaved: {groups} groups of {group_size} for {group_size} of "
          "{groups}",
          {{"blocks", n}, {"groups", n / a}, {"group_size", a}}};
    }
  }
  std::string blocks;
  for (std::size_t i = 0; i < n && i < kMostBlocksNamed; ++i) {
    blocks += base::concat(i > 0 ? " " : "", source[i]);
  }
  if (n > kMostBlocksNamed) blocks += " ...";
  return {"{blocks} blocks are in the order {block_order}",
          {{"blocks", n}, {"block_order", std::move(blocks)}}};
}

}  // namespace ttrace::localize
