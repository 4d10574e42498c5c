#include "comparison/random_draws.h"

namespace ttrace::comparison {

bool is_random_draw(const trace::TensorKey& key) {
  return key.kind == trace::Kind::kScalar &&
         (key.name == "(random)" || key.name.ends_with(".(random)"));
}

void leave_draws_unjudged(std::vector<TensorComparison>& results) {
  for (TensorComparison& result : results) {
    if (result.outcome != judge::Outcome::kDiverged || !is_random_draw(result.key)) continue;
    result.outcome = judge::Outcome::kNotJudged;
    result.reason = "each run drew random numbers of its own";
  }
}

}  // namespace ttrace::comparison
