#include <algorithm>
#include <cmath>

#include "base/display_limits.h"
#include "base/message.h"
#include "layout/mesh.h"
#include "localize/causes/trial.h"

namespace ttrace::localize {
namespace {

constexpr double kSmallPartOfRank = 0.1;  // of the difference, that may be left
// Factors that are nearer to each other are one.
constexpr double kSameFactor = 1e-3;

struct Scaled {
  const measure::BlockStats* block;
  measure::ScaleFit fit;
};

}  // namespace

std::vector<Cause> find_scaled_by_rank(const Case& the_case) {
  const measure::Measurement& measurement = *the_case.measurement;
  if (the_case.exact || measurement.total.nonfinite_different > 0) return {};
  std::vector<Scaled> shards;
  double left2 = 0;
  for (const measure::BlockStats& block : measurement.blocks) {
    if (block.stats.finite == 0) continue;
    const auto fit = measure::fit_scale(block.stats);
    if (!fit) {
      left2 += block.stats.sum_d2;  // the reference is zero there
      continue;
    }
    // One element is always a multiple of another.
    if (block.stats.finite < 2) return {};
    shards.push_back({&block, *fit});
    left2 += fit->residual_norm * fit->residual_norm;
  }
  if (shards.size() < 2) return {};
  const auto [least, most] = std::minmax_element(
      shards.begin(), shards.end(),
      [](const Scaled& a, const Scaled& b) { return a.fit.scale < b.fit.scale; });
  const double size = std::max(std::abs(least->fit.scale), std::abs(most->fit.scale));
  if (most->fit.scale - least->fit.scale <= kSameFactor * size) return {};
  const double left = std::sqrt(left2);
  if (!explains(the_case, left, {1, shards.size()}) ||
      left > kSmallPartOfRank * difference_of(the_case)) {
    reject(the_case, "scaled_by_rank", left);
    return {};
  }
  std::string text;
  for (std::size_t i = 0; i < shards.size() && i < base::kShown.names; ++i) {
    const double norm = measure::reference_norm(shards[i].block->stats);
    const double uncertainty = std::max(1e-6, shards[i].fit.residual_norm / norm);
    if (i > 0) text += ", ";
    text += base::render({"{multiple} on {ranks}",
                          {{"multiple", describe_factor(shards[i].fit.scale, uncertainty)},
                           {"ranks", layout::describe_ranks(shards[i].block->owner->ranks)}}});
  }
  if (shards.size() > base::kShown.names) {
    text = base::render({"{named} and {more} more",
                         {{"named", text}, {"more", shards.size() - base::kShown.names}}});
  }
  return {cause_that_leaves(
      the_case, left, "scaled_by_rank", "",
      {"every shard is a multiple of {reference}: {factors}", {{"factors", text}}},
      {{"least_factor", least->fit.scale}, {"most_factor", most->fit.scale}})};
}

}  // namespace ttrace::localize
