#include "replay/optimizer/reuse_update_verdicts.h"

#include <map>
#include <optional>
#include <string_view>

#include "base/error.h"
#include "base/text.h"
#include "measure/fingerprints.h"

namespace ttrace::replay {
namespace {

using comparison::TensorComparison;
using judge::Outcome;
using trace::Kind;
using trace::TensorKey;

constexpr std::string_view kMainCopy = ".main_param";

// The update whose result `key` should be, or nothing.
std::optional<TensorKey> update_before(const TensorKey& key) {
  if (key.step == 0) return std::nullopt;
  TensorKey update = key;
  update.step = key.step - 1;
  update.kind = Kind::kParamAfterStep;
  if (key.kind == Kind::kParam) return update;
  if (key.kind != Kind::kOptimizerState || !key.name.ends_with(kMainCopy)) return std::nullopt;
  update.name.resize(key.name.size() - kMainCopy.size());
  return update;
}

bool still_holds(const trace::Source& candidate, const comparison::Pair& now,
                 const comparison::Pair& update) {
  if (now.candidate->shape != update.candidate->shape) return false;
  try {
    return measure::same_values({&candidate, now.candidate}, {&candidate, update.candidate});
  } catch (const base::InputError&) {
    return false;
  }
}

}  // namespace

void reuse_update_verdicts(const trace::Source& candidate,
                           const measure::ExecutionContext& execution,
                           std::vector<TensorComparison>& results) {
  std::map<TensorKey, std::size_t> updates;  // good ones, and those that were not judged
  for (std::size_t i = 0; i < results.size(); ++i) {
    const bool good = results[i].outcome == Outcome::kMatch && results[i].comparison;
    const bool open = results[i].outcome == Outcome::kNotJudged && results[i].comparison;
    if (results[i].key.kind != Kind::kParamAfterStep) continue;
    if (good || open) updates.emplace(results[i].key, i);
  }
  execution.parallel_for(results.size(), [&](std::size_t i) {
    TensorComparison& result = results[i];
    if (result.outcome != Outcome::kDiverged || result.exact) return;
    const auto before = update_before(result.key);
    const auto found = before ? updates.find(*before) : updates.end();
    if (found == updates.end()) return;
    if (!still_holds(candidate, results[i], results[found->second])) return;
    const TensorComparison& update = results[found->second];
    result.comparison = update.comparison;
    result.largest_rank = update.largest_rank;
    result.largest_local = update.largest_local;
    result.outcome = update.outcome;
    result.reason = base::concat(
        "the candidate's ", to_string(*before),
        update.outcome == Outcome::kMatch ? ", which matches" : ", which could not be judged");
  });
}

}  // namespace ttrace::replay
