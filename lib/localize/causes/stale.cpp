#include "base/message.h"
#include "localize/causes/cause.h"

namespace ttrace::localize {

std::vector<Cause> find_stale(const StaleFacts& facts) {
  if (facts.of_master) {
    return {answer::cause_of(
        "stale_master", "",
        facts.is_update ? base::Message{"{wrong:element} of the parameter {wrong?is|are} not what "
                                        "the optimizer's master holds before {undone_by}",
                                        {{"wrong", facts.wrong}, {"undone_by", "the step"}}}
                        : base::Message{"{wrong:element} of the parameter {wrong?is|are} not what "
                                        "it holds before {copied_in}",
                                        {{"wrong", facts.wrong}, {"copied_in", "the step"}}},
        0)};
  }
  if (facts.unmoved <= facts.wrong / 2) return {};
  const double left =
      static_cast<double>(facts.wrong - facts.unmoved) / static_cast<double>(facts.wrong);
  return {answer::cause_of("stale", "",
                           {"{unmoved} of the {wrong} wrong elements still have their old value",
                            {{"unmoved", facts.unmoved}, {"wrong", facts.wrong}}},
                           left * facts.error)};
}

}  // namespace ttrace::localize
