#include "base/text.h"
#include "localize/causes/cause.h"

namespace ttrace::localize {

std::vector<Cause> find_stale(const StaleFacts& facts) {
  if (facts.unmoved <= facts.wrong / 2) return {};
  const double left =
      static_cast<double>(facts.wrong - facts.unmoved) / static_cast<double>(facts.wrong);
  return {{"stale",
           "",
           base::concat(facts.unmoved, " of the ", facts.wrong,
                        " wrong elements still have their old value"),
           left * facts.error,
           {{"unmoved", facts.unmoved}, {"wrong", facts.wrong}}}};
}

}  // namespace ttrace::localize
