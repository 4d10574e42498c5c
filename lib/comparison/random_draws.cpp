#include "comparison/random_draws.h"

#include "base/message.h"

namespace ttrace::comparison {

bool is_random_draw(const trace::TensorKey& key) {
  return key.kind == trace::Kind::kScalar &&
         (key.name == "(random)" || key.name.ends_with(".(random)"));
}

void leave_draws_unjudged(std::vector<TensorComparison>& results) {
  for (TensorComparison& result : results) {
    if (!judge::is_bad(result.outcome) || !is_random_draw(result.key)) continue;
    result.outcome = judge::Outcome::kNotJudged;
    const bool in_one = result.reference == nullptr || result.candidate == nullptr;
    result.reason = base::render({in_one ? "one run alone recorded the random numbers that it drew"
                                         : "each run drew random numbers of its own",
                                  {}});
  }
}

}  // namespace ttrace::comparison
