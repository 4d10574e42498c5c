#include "audit/updates.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/message.h"
#include "base/text.h"
#include "comparison/run_facts.h"
#include "measure/fingerprints.h"

namespace ttrace::audit {
namespace {

using base::render;
using trace::Kind;
using trace::OptimizerGroup;
using trace::TensorEntry;
using trace::TensorKey;

class Updates {
 public:
  Updates(const trace::Source& run, const specification::Specification* specification,
          const comparison::Selection& selection)
      : run_(run),
        specification_(specification),
        selection_(selection),
        skipped_(comparison::skipped_steps(run.manifest())) {
    for (const TensorEntry& entry : run.manifest().tensors) {
      entries_.emplace(entry.key, &entry);
      if (entry.key.kind == Kind::kParamGrad || entry.key.kind == Kind::kMainGrad) {
        with_gradient_.emplace(entry.key.step, entry.key.name);
        steps_with_gradients_.insert(entry.key.step);
      }
    }
    if (specification == nullptr) return;
    for (const specification::SpecifiedTensor& tensor : specification->tensors) {
      if (tensor.kind == Kind::kParamGrad) trained_.insert(tensor.name);
    }
  }

  AuditedUpdates audited(const std::vector<AuditedTensor>& tensors) {
    for (const AuditedTensor& tensor : tensors) {
      if (tensor.key.kind == Kind::kParamAfterStep) count_recorded(tensor);
    }
    for (const OptimizerGroup& group : run_.manifest().optimizer) {
      if (!skipped_.contains(group.step)) count_lacking(group);
    }
    AuditedUpdates out{count_.total(), claimed_, {}, {}};
    for (const auto& [step, updated] : updated_) {
      if (any_moved(updated)) continue;
      out.unmoved.push_back(step);
      if (begins_at_rest(step)) out.at_rest.push_back(step);
    }
    return out;
  }

 private:
  using Pair = std::pair<const TensorEntry*, const TensorEntry*>;  // before and after the step

  void count_recorded(const AuditedTensor& tensor) {
    claimed_ = true;
    if (tensor.judged() || !is_sum_of_ranks(tensor.key)) {
      count_.add(tensor.key.name, tensor.judged(), reason_of(tensor));
    }
    const TensorEntry* after = entry_of(tensor.key, Kind::kParamAfterStep);
    const TensorEntry* before = entry_of(tensor.key, Kind::kParam);
    if (before == nullptr || before->shape != after->shape) return;
    const bool frozen =
        steps_with_gradients_.contains(tensor.key.step) && !has_gradient(tensor.key);
    if (!frozen) updated_[tensor.key.step].emplace_back(before, after);
  }

  // Whether the main gradient was recorded before its reduction. What rounding makes of many terms
  // is not known, so that no update follows from it; but a reduction that is lost leaves the ranks
  // with other parameters.
  bool is_sum_of_ranks(const TensorKey& key) const {
    const TensorEntry* gradient = entry_of(key, Kind::kMainGrad);
    if (gradient == nullptr) return false;
    const std::vector<trace::MeshAxis>& axes = run_.manifest().meshes.at(gradient->mesh).axes;
    return std::any_of(axes.begin(), axes.end(), [gradient](const trace::MeshAxis& axis) {
      const auto placed = gradient->placements.find(axis.name);
      return axis.size > 1 && placed != gradient->placements.end() &&
             std::holds_alternative<trace::Partial>(placed->second);
    });
  }

  static std::string reason_of(const AuditedTensor& tensor) {
    if (!tensor.reason.empty()) return tensor.reason;
    if (tensor.outcome == AuditOutcome::kBelowBound) return std::string(kBelowBoundReason);
    return render({"nothing says what it follows from", {}});
  }

  // Counts the parameters that the group updates and that the trace lacks after its step.
  void count_lacking(const OptimizerGroup& group) {
    for (const std::string& name : group.params) {
      TensorKey key;
      key.step = group.step;
      key.kind = Kind::kParamAfterStep;
      key.name = name;
      if (!selection_.selects(key)) continue;
      claimed_ = true;
      if (!has_gradient(key) && !trained_.contains(name)) continue;
      if (is_recorded_under_a_name(key)) continue;
      count_.add(name, false,
                 render({"they were not recorded (TTRACE_KINDS needs param_after_step)", {}}));
    }
  }

  bool has_gradient(const TensorKey& key) const {
    return with_gradient_.contains({key.step, key.name});
  }

  // A tied parameter is recorded under one of its names.
  bool is_recorded_under_a_name(TensorKey key) const {
    if (entries_.contains(key)) return true;
    if (specification_ == nullptr) return false;
    for (const std::vector<std::string>& tied : specification_->after_backward.tied) {
      if (std::find(tied.begin(), tied.end(), key.name) == tied.end()) continue;
      for (const std::string& other : tied) {
        key.name = other;
        if (entries_.contains(key)) return true;
      }
    }
    return false;
  }

  const TensorEntry* entry_of(TensorKey key, Kind kind) const {
    key.kind = kind;
    const auto found = entries_.find(key);
    return found == entries_.end() ? nullptr : found->second;
  }

  bool any_moved(const std::vector<Pair>& updated) const {
    return std::any_of(updated.begin(), updated.end(), [this](const Pair& pair) {
      try {
        return !measure::same_numbers({&run_, pair.first}, {&run_, pair.second});
      } catch (const base::InputError&) {
        return true;
      }
    });
  }

  bool begins_at_rest(std::uint64_t step) const {
    bool any = false;
    for (const OptimizerGroup& group : run_.manifest().optimizer) {
      if (group.step != step) continue;
      any = true;
      const auto rate = group.numbers.find("lr");
      const auto updates = group.numbers.find("updates");
      if (rate == group.numbers.end() || rate->second != 0) return false;
      if (updates == group.numbers.end() || updates->second > 1) return false;
    }
    return any;
  }

  const trace::Source& run_;
  const specification::Specification* specification_;
  const comparison::Selection& selection_;
  std::set<std::uint64_t> skipped_;
  std::map<TensorKey, const TensorEntry*> entries_;
  std::set<std::pair<std::uint64_t, std::string>> with_gradient_;
  std::set<std::uint64_t> steps_with_gradients_;
  std::set<std::string> trained_;
  answer::UpdateCount count_;
  bool claimed_ = false;
  std::map<std::uint64_t, std::vector<Pair>> updated_;
};

constexpr std::array<std::string_view, 3> kMoments{".exp_avg", ".exp_avg_sq", ".momentum_buffer"};

bool is_moment(const AuditedTensor& tensor) {
  return tensor.key.kind == Kind::kOptimizerState &&
         std::ranges::any_of(
             kMoments, [&](std::string_view ending) { return tensor.key.name.ends_with(ending); });
}

struct MomentsOfStep {
  std::vector<AuditedTensor*> moments;
  bool all_zero = true;
  bool has_gradient = false;
  std::optional<double> fewest_updates;  // of a parameter, this one included
  std::set<std::string> at_first;        // parameters whose first update it is
};

void add_check(const std::vector<AuditedTensor*>& moments, const std::string& reason) {
  AuditCheck check;
  check.operation = "moments";
  check.result = CheckResult::kInconsistent;
  check.error = 1;
  check.reason = reason;
  for (AuditedTensor* moment : moments) moment->checks.push_back(check);
}

std::string listed(const std::vector<std::uint64_t>& steps) {
  std::string text;
  for (const std::uint64_t step : steps) text += base::concat(text.empty() ? "" : ", ", step);
  return text;
}

}  // namespace

std::string AuditedUpdates::describe_unmoved() const {
  if (!claimed) return render({"no update was recorded", {}});
  if (unmoved.empty()) return "";
  return render({unmoved == at_rest
                     ? "no parameter moved in {count?step|steps} {steps}, whose learning rate is 0"
                     : "no parameter moved in {count?step|steps} {steps}",
                 {{"count", unmoved.size()}, {"steps", listed(unmoved)}}});
}

std::string AuditedUpdates::why_inconclusive() const {
  if (std::string why = why_too_few(); !why.empty()) return why;
  return unmoved == at_rest ? "" : describe_unmoved();
}

AuditedUpdates audited_updates(const trace::Source& run,
                               const specification::Specification* specification,
                               const comparison::Selection& selection,
                               const std::vector<AuditedTensor>& tensors) {
  return Updates(run, specification, selection).audited(tensors);
}

void check_moments(const trace::Manifest& manifest, std::vector<AuditedTensor>& tensors) {
  std::map<std::uint64_t, MomentsOfStep> steps;
  for (AuditedTensor& tensor : tensors) {
    MomentsOfStep& step = steps[tensor.key.step];
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
    MomentsOfStep& step = steps[group.step];
    step.fewest_updates = std::min(step.fewest_updates.value_or(updates->second), updates->second);
    // Theirs is the optimizer's own count; that of others may begin with the trace.
    const bool counts = group.type == "adam" || group.type == "adamw";
    if (counts && updates->second == 1)
      step.at_first.insert(group.params.begin(), group.params.end());
  }
  for (const auto& [number, step] : steps) {
    const bool lost = step.moments.size() >= 2 && step.all_zero && step.has_gradient &&
                      step.fewest_updates.value_or(1) > 1;
    if (lost) {
      add_check(step.moments,
                base::render({"all {count:moment} {count?is|are} zero at update {update}: the "
                              "optimizer's state was not loaded with its count",
                              {{"count", step.moments.size()},
                               {"update", static_cast<std::uint64_t>(*step.fewest_updates)}}}));
    }
    std::vector<AuditedTensor*> early;
    for (AuditedTensor* moment : step.moments) {
      const std::string& name = moment->key.name;
      const bool first = step.at_first.contains(name.substr(0, name.rfind('.')));
      if (first && moment->norm && *moment->norm > 0) early.push_back(moment);
    }
    if (early.empty()) continue;
    add_check(early,
              base::render({"{count:moment} {count?is|are} not zero at the first update: the "
                            "count of updates was not loaded with the optimizer's state",
                            {{"count", early.size()}}}));
  }
}

void check_groups(const specification::Specification& specification,
                  const trace::Manifest& manifest, std::vector<AuditedTensor>& tensors) {
  std::map<std::uint64_t, std::set<std::string>> held;
  for (const trace::OptimizerGroup& group : manifest.optimizer) {
    held[group.step].insert(group.params.begin(), group.params.end());
  }
  for (const specification::Specification& one : specification.updates) {
    const auto own = held.find(one.update->step);
    if (own == held.end()) continue;
    const auto& settings = one.update->settings;
    const auto known = std::ranges::count_if(
        settings, [&](const auto& setting) { return own->second.contains(setting.first); });
    if (2 * static_cast<std::size_t>(known) <= settings.size()) continue;
    for (AuditedTensor& tensor : tensors) {
      const trace::TensorKey& key = tensor.key;
      if (key.kind != Kind::kMainGrad || key.step != own->first || !tensor.norm) continue;
      const auto setting = settings.find(key.name);
      if (*tensor.norm == 0 || setting == settings.end() || own->second.contains(key.name))
        continue;
      AuditCheck check;
      check.operation = "groups";
      check.result = CheckResult::kInconsistent;
      check.error = 1;
      check.reason =
          base::render({"no optimizer of this run has the parameter, so that nothing "
                        "updates it; in the specification {type} does",
                        {{"type", setting->second.type}}});
      tensor.checks.push_back(check);
    }
  }
}

}  // namespace ttrace::audit
