#include "localize/causes/cause.h"

namespace ttrace::localize {

std::vector<Cause> find_stale(const StaleFacts& facts) {
  if (facts.unmoved <= facts.wrong / 2) return {};
  const double left =
      static_cast<double>(facts.wrong - facts.unmoved) / static_cast<double>(facts.wrong);
  return {answer::cause_of("stale", "",
                           {"{unmoved} of the {wrong} wrong elements still have their old value",
                            {{"unmoved", facts.unmoved}, {"wrong", facts.wrong}}},
                           left * facts.error)};
}

}  // namespace ttrace::localize
