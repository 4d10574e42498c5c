#include "localize/isolation.h"

#include <algorithm>
#include <map>
#include <set>

#include "answer/audited_tensor.h"
#include "base/message.h"
#include "base/text.h"
#include "localize/localization.h"

namespace ttrace::localize {
namespace {

using trace::Kind;

class Isolation {
 public:
  Isolation(const trace::Manifest& reference, const trace::Manifest& candidate,
            const ReportedComparison& compared)
      : compared_(compared) {
    std::set<std::string> known;
    for (const trace::Manifest* manifest : {&reference, &candidate}) {
      for (const trace::TensorEntry& entry : manifest->tensors) {
        if (trace::is_module_value(entry.key.kind)) known.insert(module_of(entry.key));
      }
      for (const trace::Module& module : manifest->modules) {
        about_.emplace(module.name, &module);
      }
    }
    for (const std::string& name : candidate.run.plan->modules) {
      for (const std::string& module : known) {
        if (module == name || (!known.contains(name) && base::glob_match(name, module))) {
          isolated_.insert(module);
        }
      }
    }
    for (const trace::TensorEntry& entry : candidate.tensors) {
      if (entry.key.kind == Kind::kOutput) has_output_.insert(module_of(entry.key));
    }
    share_out();
  }

  std::vector<IsolatedModule> judge() const {
    std::vector<IsolatedModule> modules;
    for (const std::string& module : isolated_) modules.push_back(judge(module));
    return modules;
  }

 private:
  // Gives every wrong tensor to the innermost isolated module that holds it.
  void share_out() {
    const std::set<trace::TensorKey> first(compared_.frontier.begin(), compared_.frontier.end());
    for (const trace::TensorKey& key : compared_.bad) {
      const std::string* owner = owner_of(key);
      if (owner == nullptr) continue;
      switch (key.kind) {
        case Kind::kInput:
          if (module_of(key) == *owner) {
            wrong_inputs_[*owner].push_back(key);
            continue;
          }
          break;
        case Kind::kGradOutput:
          if (module_of(key) == *owner) {
            wrong_gradients_[*owner].push_back(key);
            continue;
          }
          break;
        case Kind::kOutput:
        case Kind::kGradInput:
        case Kind::kParamGrad:
          break;
        case Kind::kMainGrad:
          // Those of tied parameters are sums over several modules.
          if (!first.contains(key)) continue;
          break;
        default:
          continue;
      }
      wrong_[*owner].push_back(key);
    }
  }

  const std::string* owner_of(const trace::TensorKey& key) const {
    std::string module = module_of(key);
    while (true) {
      const auto owner = isolated_.find(module);
      if (owner != isolated_.end()) return &*owner;
      if (module == trace::kWholeModel) return nullptr;
      module = std::string(trace::owner_of(module));
    }
  }

  IsolatedModule judge(const std::string& module) const {
    IsolatedModule found;
    found.module = module;
    if (const auto about = about_.find(module); about != about_.end()) {
      found.class_name = about->second->class_name;
      found.called_at = about->second->called_at;
    }
    if (const auto inputs = wrong_inputs_.find(module); inputs != wrong_inputs_.end()) {
      found.verdict = answer::Verdict::kInconclusive;
      found.reason = base::render({"its input {input} differs under the plan",
                                   {{"input", to_string(inputs->second.front())}}});
      return found;
    }
    const auto wrong = wrong_.find(module);
    if (wrong != wrong_.end()) {
      for (const trace::TensorKey& key : wrong->second) {
        const std::string inside = key.kind == Kind::kOutput ? wrong_output_inside(module) : "";
        if (inside.empty() || module_of(key) != module) {
          found.wrong.push_back(key);
        } else {
          found.reason = base::render(
              {"what is wrong comes from {module}, which is inside it", {{"module", inside}}});
        }
      }
    }
    const auto gradients = wrong_gradients_.find(module);
    if (gradients != wrong_gradients_.end()) {
      // What follows from another gradient says nothing; the forward still does.
      std::erase_if(found.wrong,
                    [](const trace::TensorKey& key) { return phase_of(key) >= Phase::kBackward; });
    }
    if (!found.wrong.empty()) {
      found.verdict = answer::Verdict::kWrong;
      found.phase = phase_of(found.wrong.front());
      found.reason.clear();
    } else if (gradients != wrong_gradients_.end()) {
      found.verdict = answer::Verdict::kInconclusive;
      found.reason = base::render({"the gradient of its output differs: {gradient}",
                                   {{"gradient", to_string(gradients->second.front())}}});
    } else if (!has_output_.contains(module)) {
      found.verdict = answer::Verdict::kInconclusive;
      found.reason = base::render({"its output is not recorded (TTRACE_KINDS needs output)", {}});
    }
    return found;
  }

  // An isolated module inside of `module` whose output is wrong, or nothing.
  std::string wrong_output_inside(const std::string& module) const {
    for (const auto& [inner, keys] : wrong_) {
      if (!trace::is_inside(inner, module)) continue;
      if (std::any_of(keys.begin(), keys.end(), [&inner = inner](const trace::TensorKey& key) {
            return key.kind == Kind::kOutput && module_of(key) == inner;
          })) {
        return inner;
      }
    }
    return "";
  }

  const ReportedComparison& compared_;
  std::map<std::string, const trace::Module*> about_;
  std::set<std::string> isolated_;
  std::set<std::string> has_output_;
  std::map<std::string, std::vector<trace::TensorKey>> wrong_;  // by module, in order
  std::map<std::string, std::vector<trace::TensorKey>> wrong_inputs_;
  std::map<std::string, std::vector<trace::TensorKey>> wrong_gradients_;
};

}  // namespace

std::vector<IsolatedModule> judge_isolated(const trace::Manifest& reference,
                                           const trace::Manifest& candidate,
                                           const ReportedComparison& compared) {
  return Isolation(reference, candidate, compared).judge();
}

}  // namespace ttrace::localize
