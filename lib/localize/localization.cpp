#include "localize/localization.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "base/display_limits.h"
#include "base/message.h"
#include "base/text.h"

namespace ttrace::localize {
namespace {

using answer::AuditCheck;
using answer::AuditOutcome;
using answer::CheckResult;
using trace::Kind;

std::string list_of(const std::vector<std::string>& items) {
  std::string text;
  for (std::size_t i = 0; i < items.size(); ++i) {
    text += base::concat(i == 0 ? "" : i + 1 == items.size() ? " and " : ", ", items[i]);
  }
  return text;
}

void add_once(std::string item, std::vector<std::string>& items) {
  if (std::find(items.begin(), items.end(), item) == items.end()) items.push_back(std::move(item));
}

}  // namespace

std::uint64_t LocalizeReport::judged_layers() const {
  return static_cast<std::uint64_t>(std::count_if(
      layers.begin(), layers.end(), [](const LayerSummary& layer) { return layer.judged > 0; }));
}

answer::Verdict LocalizeReport::verdict() const {
  using answer::Verdict;
  if (!unfinished.empty()) return Verdict::kInconclusive;
  const bool broken = std::any_of(layers.begin(), layers.end(),
                                  [](const LayerSummary& layer) { return !layer.broken.empty(); });
  if (!findings.empty() || broken || (code && !code->differences.empty())) return Verdict::kWrong;
  const bool nothing_judged = !layers.empty() && judged_layers() == 0;
  return nothing_judged || comparison.exit_code == 3 ? Verdict::kInconclusive : Verdict::kRight;
}

std::string describe_left_out(const ReportedComparison& comparison) {
  if (comparison.skipped == 0) return "";
  const comparison::Selection& selection = comparison.selection;
  std::vector<std::string> by;
  const auto add = [&by](const char* flag, std::vector<std::string> values) {
    for (const std::string& value : values) by.push_back(base::concat(flag, " ", value));
  };
  std::vector<std::string> kinds;
  for (const Kind kind : selection.kinds) kinds.emplace_back(kind_name(kind));
  std::vector<std::string> steps;
  for (const std::uint64_t step : selection.steps) steps.push_back(base::concat(step));
  add("--only", selection.only);
  add("--skip", selection.skip);
  add("--kind", kinds);
  add("--step", steps);
  if (comparison.common) by.emplace_back("--common");
  if (by.empty()) by.push_back(base::render({"rules that skip", {}}));
  if (by.size() > base::kShown.few_names) {
    const std::size_t rest = by.size() - base::kShown.few_names;
    by.resize(base::kShown.few_names);
    by.push_back(base::concat(rest, " more"));
  }
  return base::render(
      {"{skipped} of {tensors:tensor} {skipped?was|were} left out ({by})",
       {{"skipped", comparison.skipped}, {"tensors", comparison.tensors}, {"by", list_of(by)}}});
}

std::string describe_local(const std::vector<AuditedTensor>& local) {
  std::vector<std::string> holding;
  std::map<std::string, std::uint64_t> broken;  // by kind and reason
  std::vector<std::string> unknown;
  double worst = 0;
  for (const AuditedTensor& tensor : local) {
    const std::string kind(kind_name(tensor.key.kind));
    if (const AuditCheck* check = tensor.broken_check()) {
      if (!tensor.downstream) ++broken[base::concat(kind, ": ", check->reason)];
      continue;
    }
    if (tensor.outcome == AuditOutcome::kGiven ||
        tensor.outcome == AuditOutcome::kZeroWithinRounding) {
      continue;
    }
    if (!tensor.judged()) {
      add_once(kind, unknown);
      continue;
    }
    add_once(kind, holding);
    for (const AuditCheck& check : tensor.checks) {
      if (check.result == CheckResult::kConsistent) worst = std::max(worst, check.share());
    }
  }
  std::string text;
  if (!holding.empty()) {
    text =
        base::render({"{tensors} {kinds?follows from its|follow from their} own inputs (worst "
                      "{worst} of the bound)",
                      {{"tensors", list_of(holding)},
                       {"kinds", std::uint64_t{holding.size()}},
                       {"worst", worst}}});
  }
  const auto add = [&text](const std::string& clause) {
    text += base::concat(text.empty() ? "" : "; ", clause);
  };
  for (const auto& [what, tensors] : broken) {
    add(tensors > 1
            ? base::render({"{what} ({tensors} tensors)", {{"what", what}, {"tensors", tensors}}})
            : what);
  }
  if (!unknown.empty()) {
    add(base::render({"{tensors} could not be replayed", {{"tensors", list_of(unknown)}}}));
  }
  return text.empty() ? base::render({"nothing of this module could be replayed", {}}) : text;
}

}  // namespace ttrace::localize
