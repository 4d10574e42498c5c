// Which rule of a map a name is for.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "layout/map_rules.h"

namespace ttrace::layout {

// The rule, which of its patterns, and what that captured.
struct RuleMatch {
  std::size_t rule = 0;
  std::size_t pattern = 0;
  NamePattern::Captures captures;
};

// The first rule that is about one of `kinds` and has a pattern that matches.
std::optional<RuleMatch> match_of(const std::vector<MapRule>& rules, std::string_view name,
                                  const std::vector<trace::Kind>& kinds);

}  // namespace ttrace::layout
