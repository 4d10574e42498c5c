#include "comparison/lonely_noise.h"

#include <algorithm>
#include <cstddef>
#include <map>

#include "base/display_limits.h"
#include "base/message.h"
#include "base/text.h"
#include "judge/lonely_noise.h"
#include "judge/tolerance.h"

namespace ttrace::comparison {
namespace {

bool has_noise(const TensorComparison& result) {
  return result.comparison && result.comparison->noise && !result.exact &&
         !result.comparison->replay;
}

void divide(double times, judge::NoiseEstimate& noise) {
  const double most = noise.norm() / times;
  const double most_of_one = noise.largest_value() / times;
  for (double& norm : noise.norms) norm = std::min(norm, most);
  for (double& largest : noise.largest) largest = std::min(largest, most_of_one);
  // How much of it lies along the tensor says as little.
  noise.coherence.clear();
}

}  // namespace

std::vector<std::string> judge_lonely_noise_by_neighbours(std::vector<TensorComparison>& results) {
  judge::LonelyNoise noise;
  for (const TensorComparison& result : results) {
    if (!has_noise(result)) continue;
    noise.add(result.key, result.comparison->noise->norm(),
              result.comparison->noise->reference_norm,
              result.comparison->measurement.total.elements,
              judge::shared_epsilon(*result.reference, *result.reference));
  }
  std::map<trace::TensorKey, double> lonely;
  std::string named;
  for (const judge::LonelyNoise::Found& found : noise.find()) {
    if (lonely.size() < base::kShown.few_names) {
      named += base::concat(named.empty() ? "" : ", ", to_string(found.key), " (",
                            base::short_number(found.times), " times)");
    }
    lonely.emplace(found.key, found.times);
  }
  if (lonely.empty()) return {};
  for (TensorComparison& result : results) {
    const auto found = lonely.find(result.key);
    if (found != lonely.end() && has_noise(result))
      divide(found->second, *result.comparison->noise);
  }
  const std::size_t more =
      lonely.size() - std::min<std::size_t>(lonely.size(), base::kShown.few_names);
  return {base::render(
      {"{count:tensor} {count?has|have} noise that is no rounding, since nothing beside "
       "{count?it|them} shows it: {named}[ and {more} more]; {count?it is|they are} judged by the "
       "noise of {count?its|their} kind and module",
       {{"count", lonely.size()},
        {"named", named},
        {"more", more > 0 ? base::concat(more) : std::string()}}})};
}

}  // namespace ttrace::comparison
