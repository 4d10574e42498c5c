#include "layout/map_match.h"

#include <algorithm>

#include "layout/rule_scope.h"

namespace ttrace::layout {

std::optional<RuleMatch> match_of(const std::vector<MapRule>& rules, std::string_view name,
                                  const std::vector<trace::Kind>& kinds) {
  for (std::size_t r = 0; r < rules.size(); ++r) {
    const bool concerned = std::any_of(
        kinds.begin(), kinds.end(), [&](trace::Kind kind) { return is_of(rules[r].kinds, kind); });
    if (!concerned) continue;
    for (std::size_t p = 0; p < rules[r].from.size(); ++p) {
      if (auto captures = rules[r].from[p].match(name)) {
        return RuleMatch{r, p, std::move(*captures)};
      }
    }
  }
  return std::nullopt;
}

}  // namespace ttrace::layout
