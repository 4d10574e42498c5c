#include "answer/finding.h"

#include <algorithm>

namespace ttrace::answer {

Cause cause_of(std::string name, std::string axis, const base::Message& evidence,
               double unexplained, CauseValues more) {
  Cause cause{std::move(name), std::move(axis), base::render(evidence),
              unexplained,     std::move(more), nullptr};
  for (const auto& [of, value] : evidence.values) {
    const bool known = std::any_of(cause.values.begin(), cause.values.end(),
                                   [&of = of](const auto& one) { return one.first == of; });
    if (!known) cause.values.emplace_back(of, value);
  }
  return cause;
}

}  // namespace ttrace::answer
