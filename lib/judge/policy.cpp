#include "judge/policy.h"

#include <algorithm>
#include <chrono>
#include <cstdio>

#include "base/glob.h"
#include "layout/map_rules.h"

namespace ttrace::judge {

std::optional<std::size_t> rule_for(const Policy& policy, const trace::TensorKey& key) {
  for (std::size_t i = 0; i < policy.size(); ++i) {
    const PolicyRule& rule = policy[i];
    const bool named =
        std::any_of(rule.names.begin(), rule.names.end(),
                    [&key](const std::string& name) { return base::glob_match(name, key.name); });
    if (named && layout::is_of(rule.kinds, key.kind)) return i;
  }
  return std::nullopt;
}

bool skips(const PolicyRule& rule, const std::string& today) {
  // Dates written this way sort as text.
  return !rule.skip.empty() && (rule.until.empty() || today <= rule.until);
}

bool is_date(const std::string& text) {
  static constexpr std::string_view kShape = "dddd-dd-dd";
  if (text.size() != kShape.size()) return false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool digit = text[i] >= '0' && text[i] <= '9';
    if (kShape[i] == 'd' ? !digit : text[i] != '-') return false;
  }
  const auto number = [&text](std::size_t at, std::size_t size) {
    return std::stoi(text.substr(at, size));
  };
  return std::chrono::year_month_day(std::chrono::year(number(0, 4)),
                                     std::chrono::month(static_cast<unsigned>(number(5, 2))),
                                     std::chrono::day(static_cast<unsigned>(number(8, 2))))
      .ok();
}

}  // namespace ttrace::judge
