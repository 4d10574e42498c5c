#include "audit/moments.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <string_view>

#include "base/message.h"

namespace ttrace::audit {
namespace {

using trace::Kind;

constexpr std::array<std::string_view, 3> kMoments{".exp_avg", ".exp_avg_sq", ".momentum_buffer"};

bool is_moment(const AuditedTensor& tensor) {
  return tensor.key.kind == Kind::kOptimizerState &&
         std::ranges::any_of(
             kMoments, [&](std::string_view ending) { return tensor.key.name.ends_with(ending); });
}

struct Step {
  std::vector<AuditedTensor*> moments;
  bool all_zero = true;
  bool has_gradient = false;
  std::optional<double> fewest_updates;  // of a parameter, this one included
};

}  // namespace

void check_moments(const trace::Manifest& manifest, std::vector<AuditedTensor>& tensors) {
  std::map<std::uint64_t, Step> steps;
  for (AuditedTensor& tensor : tensors) {
    Step& step = steps[tensor.key.step];
    if (is_moment(tensor)) {
      step.moments.push_back(&tensor);
      step.all_zero = step.all_zero && tensor.norm && *tensor.norm == 0;
    } else if (tensor.key.kind == Kind::kMainGrad) {
      step.has_gradient = step.has_gradient || (tensor.norm && *tensor.norm > 0);
    }
  }
  for (const trace::OptimizerGroup& group : manifest.optimizer) {
    const auto updates = group.numbers.find("updates");
    if (updates == group.numbers.end() || group.params.empty()) continue;
    std::optional<double>& fewest = steps[group.step].fewest_updates;
    fewest = std::min(fewest.value_or(updates->second), updates->second);
  }
  for (const auto& [number, step] : steps) {
    const bool lost = step.moments.size() >= 2 && step.all_zero && step.has_gradient &&
                      step.fewest_updates.value_or(1) > 1;
    if (!lost) continue;
    AuditCheck check;
    check.operation = "moments";
    check.result = CheckResult::kInconsistent;
    check.error = 1;
    check.reason = base::render(
        {"all {count:moment} {count?is|are} zero at update {update}: the optimizer's state was not "
         "loaded with its count",
         {{"count", step.moments.size()},
          {"update", static_cast<std::uint64_t>(*step.fewest_updates)}}});
    for (AuditedTensor* moment : step.moments) moment->checks.push_back(check);
  }
}

}  // namespace ttrace::audit
