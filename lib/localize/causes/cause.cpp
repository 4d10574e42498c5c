#include "localize/causes/cause.h"

#include <algorithm>
#include <iterator>

#include "base/text.h"

namespace ttrace::localize {

std::vector<Cause> find_causes(const Case& the_case) {
  std::vector<Cause> causes;
  for (const auto& finder : {find_missing_reduction, find_scaled}) {
    std::vector<Cause> found = finder(the_case);
    std::move(found.begin(), found.end(), std::back_inserter(causes));
  }
  std::stable_sort(causes.begin(), causes.end(),
                   [](const Cause& a, const Cause& b) { return a.unexplained < b.unexplained; });
  return causes;
}

std::map<std::string, std::string> axes_reduced_over(
    const std::vector<std::size_t>& depends_on, const comparison::Pair& pair,
    const std::vector<comparison::TensorComparison>& results) {
  const auto placed = [](const comparison::Pair& of,
                         const std::string& axis) -> const trace::Placement* {
    for (const auto* entry : layout::stored_in(*of.candidate)) {
      const auto found = entry->placements.find(axis);
      if (found != entry->placements.end()) return &found->second;
    }
    return nullptr;
  };
  const auto is_whole = [](const trace::Placement* placement) {
    return placement == nullptr || std::holds_alternative<trace::Replicate>(*placement);
  };
  std::map<std::string, std::string> found;
  for (const std::size_t node : depends_on) {
    const trace::Kind kind = results[node].key.kind;
    if (results[node].candidate == nullptr || kind == trace::Kind::kParam ||
        kind == trace::Kind::kOptimizerState) {
      continue;
    }
    for (const auto* entry : layout::stored_in(*results[node].candidate)) {
      for (const auto& [axis, placement] : entry->placements) {
        const auto* partial = std::get_if<trace::Partial>(&placement);
        if ((partial == nullptr && !trace::cut_dimension(placement)) ||
            !is_whole(placed(pair, axis))) {
          continue;
        }
        found.emplace(
            axis, base::concat("its ", kind_name(kind), " is ",
                               partial != nullptr
                                   ? base::concat("a partial ", reduction_name(partial->reduction))
                                   : std::string("cut"),
                               " over ", axis));
      }
    }
  }
  return found;
}

}  // namespace ttrace::localize
