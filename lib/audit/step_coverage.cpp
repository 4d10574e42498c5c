#include "audit/step_coverage.h"

#include <algorithm>

#include "audit/run_variants.h"
#include "base/message.h"
#include "comparison/coverage.h"
#include "comparison/shown_precision.h"
#include "specification/describe.h"
#include "specification/primitives/noise.h"

namespace ttrace::audit {
namespace {

using trace::Kind;
using trace::TensorKey;

using Microbatches = std::set<std::optional<std::uint64_t>>;

// The steps of a trace, each with its micro-batches. A step without micro-batches gets one without
// a number.
std::map<std::uint64_t, Microbatches> steps_of(const trace::Manifest& manifest) {
  std::map<std::uint64_t, Microbatches> steps;
  for (const trace::TensorEntry& entry : manifest.tensors) {
    Microbatches& microbatches = steps[entry.key.step];
    if (entry.key.microbatch) microbatches.insert(entry.key.microbatch);
    if (!entry.microbatches) continue;
    microbatches.insert(entry.microbatches->numbers.begin(), entry.microbatches->numbers.end());
  }
  for (auto& [step, microbatches] : steps) {
    if (microbatches.empty()) microbatches.insert(std::nullopt);
  }
  return steps;
}

// Returns the keys of the manifest's tensors: for each micro-batch that a tensor stands for, and
// for none.
std::set<TensorKey> recorded_keys(const trace::Manifest& manifest) {
  std::set<TensorKey> keys;
  for (const trace::TensorEntry& entry : manifest.tensors) {
    TensorKey key = entry.key;
    keys.insert(key);
    if (!entry.microbatches) continue;
    for (const std::uint64_t number : entry.microbatches->numbers) {
      key.microbatch = number;
      keys.insert(key);
    }
  }
  return keys;
}

class Coverage {
 public:
  Coverage(const specification::Specification& specification, const trace::Manifest& manifest,
           const comparison::Selection& selection, const std::vector<AuditedTensor>& tensors,
           const JudgedValues& judged)
      : specification_(specification),
        manifest_(manifest),
        selection_(selection),
        tensors_(tensors),
        judged_(judged),
        steps_(steps_of(manifest)),
        variants_(specification, manifest),
        recorded_(recorded_keys(manifest)) {
    for (const AuditedTensor& tensor : tensors) {
      if (tensor.overflowed) skipped_.insert(tensor.key.step);
    }
    for (const specification::SpecifiedTensor& tensor : specification.tensors) {
      if (tensor.kind == Kind::kParamGrad) trained_.insert(tensor.name);
    }
  }

  StepCoverage cover() {
    for (const auto& [step, microbatches] : steps_) {
      for (const auto& microbatch : microbatches) count_microbatch(step, microbatch);
      count_after_backward(step);
    }
    count_gradients();
    find_cuts();
    find_coarser_type();
    return std::move(out_);
  }

 private:
  void lack(const TensorKey& key) {
    if (selection_.selects(key)) ++out_.lacking[key.kind];
  }

  bool is_recorded(TensorKey key) const {
    if (recorded_.contains(key)) return true;
    key.microbatch.reset();
    return recorded_.contains(key);
  }

  void count_microbatch(std::uint64_t step, std::optional<std::uint64_t> microbatch) {
    const auto found = judged_.find({step, microbatch});
    TensorKey of_microbatch;
    of_microbatch.step = step;
    of_microbatch.microbatch = microbatch;
    if (variants_.has_other_sizes(of_microbatch)) return;
    const specification::Specification& specification = variants_.of(of_microbatch);
    for (std::size_t t = 0; t < specification.tensors.size(); ++t) {
      const specification::SpecifiedTensor& tensor = specification.tensors[t];
      TensorKey key = specification.key_of(t);
      // The input of a module may be another name of an input of the model.
      const auto original = static_cast<std::uint32_t>(specification.original(t));
      const bool computed = has_origin(specification.tensors[original]) ||
                            (!tensor.same && must_be_derived(specification, key));
      key.step = step;
      key.microbatch = microbatch;
      if (trace::is_inner_factor_of_loss(key) && !computed) count_factor(key);
      if (!computed || is_after_backward(tensor.kind) || tensor.number) continue;
      if (is_recorded(key)) continue;
      if (key.kind == Kind::kParamGrad && specification_.is_frozen(step, key.name)) continue;
      if (found != judged_.end() && found->second.contains(original)) continue;
      lack(key);
    }
  }

  void count_factor(const TensorKey& factor) {
    TensorKey loss = factor;
    loss.kind = Kind::kLoss;
    loss.name = "loss";
    const bool counts = !recorded_.contains(factor) && recorded_.contains(loss);
    if (counts && selection_.selects(loss)) ++out_.unknown_factors;
  }

  static bool has_origin(const specification::SpecifiedTensor& tensor) {
    return tensor.pattern || tensor.same || !tensor.opaque.empty();
  }

  static bool is_after_backward(Kind kind) {
    return kind == Kind::kMainGrad || kind == Kind::kGradNorm || kind == Kind::kParamAfterStep;
  }

  TensorKey key_of_step(std::uint64_t step, Kind kind, const std::string& name) const {
    TensorKey key;
    key.step = step;
    key.kind = kind;
    key.name = name;
    return key;
  }

  void count_after_backward(std::uint64_t step) {
    const specification::AfterBackward& after = specification_.after_backward;
    bool has_norm = after.clip_norm.has_value();
    for (const specification::SpecifiedTensor& tensor : specification_.tensors) {
      has_norm = has_norm || tensor.kind == Kind::kGradNorm;
    }
    const auto has_kind = [&](Kind kind) {
      return std::any_of(recorded_.begin(), recorded_.end(), [&](const TensorKey& key) {
        return key.step == step && key.kind == kind;
      });
    };
    if (has_norm && !has_kind(Kind::kGradNorm)) {
      lack(key_of_step(step, Kind::kGradNorm, "grad_norm"));
    }
    const bool steps = !skipped_.contains(step) &&
                       std::any_of(manifest_.optimizer.begin(), manifest_.optimizer.end(),
                                   [&](const auto& group) { return group.step == step; });
    for (const std::string& name : trained_) {
      const auto taken = after.taken.find(name);
      const bool follows = (taken == after.taken.end() || !taken->second.empty()) &&
                           !specification_.is_frozen(step, name);
      if (after.has_main_grad && follows && !has_under_a_name(step, Kind::kMainGrad, name)) {
        lack(key_of_step(step, Kind::kMainGrad, name));
      }
      if (steps && !has_under_a_name(step, Kind::kParamAfterStep, name)) {
        lack(key_of_step(step, Kind::kParamAfterStep, name));
      }
    }
  }

  // A tied parameter is recorded under one of its names.
  bool has_under_a_name(std::uint64_t step, Kind kind, const std::string& name) const {
    if (recorded_.contains(key_of_step(step, kind, name))) return true;
    for (const std::vector<std::string>& tied : specification_.after_backward.tied) {
      if (std::find(tied.begin(), tied.end(), name) == tied.end()) continue;
      for (const std::string& other : tied) {
        if (recorded_.contains(key_of_step(step, kind, other))) return true;
      }
    }
    return false;
  }

  void count_gradients() {
    std::set<std::string> names = trained_;
    std::set<std::string> judged;
    std::set<std::string> overflowed;
    std::map<std::string, std::uint64_t> reasons;
    for (const AuditedTensor& tensor : tensors_) {
      const Kind kind = tensor.key.kind;
      if (kind != Kind::kParamGrad && kind != Kind::kMainGrad) continue;
      names.insert(tensor.key.name);
      if (kind != Kind::kParamGrad) continue;
      if (tensor.judged() || tensor.outcome == AuditOutcome::kZeroWithinRounding) {
        judged.insert(tensor.key.name);
      } else if (tensor.overflowed) {
        overflowed.insert(tensor.key.name);
      } else {
        const bool below = tensor.outcome == AuditOutcome::kBelowBound && tensor.reason.empty();
        ++reasons[below ? std::string(kBelowBoundReason) : tensor.reason];
      }
    }
    std::erase_if(names, [&](const std::string& name) {
      if (overflowed.contains(name) && !judged.contains(name)) return true;
      TensorKey key;
      key.kind = Kind::kParamGrad;
      key.name = name;
      return !trains_in_some_step(key);
    });
    out_.parameters = names.size();
    for (const std::string& name : names) {
      if (!judged.contains(name)) out_.unjudged_gradients.push_back(name);
    }
    std::uint64_t most = 0;
    for (const auto& [reason, count] : reasons) {
      if (count > most) out_.reason = reason;
      most = std::max(most, count);
    }
    if (out_.reason.empty()) {
      out_.reason = base::render({"they were not recorded (TTRACE_KINDS needs param_grad)", {}});
    }
  }

  // Whether a gradient was selected in a step that trains its parameter.
  bool trains_in_some_step(TensorKey key) const {
    for (const auto& [step, microbatches] : steps_) {
      key.step = step;
      if (selection_.selects(key) && !specification_.is_frozen(step, key.name)) return true;
    }
    return false;
  }

  // Follows the loss back through what it was computed from, to the parameters.
  void find_cuts() {
    for (std::size_t t = 0; t < specification_.tensors.size(); ++t) {
      const specification::SpecifiedTensor& tensor = specification_.tensors[t];
      if (has_origin(tensor) || is_after_backward(tensor.kind)) continue;
      if (!must_be_derived(specification_, specification_.key_of(t))) continue;
      note(t, out_.without_origin);
    }
    std::vector<char> reached(specification_.tensors.size(), 0);
    bool any = false;
    for (std::size_t t = specification_.tensors.size(); t-- > 0;) {
      const specification::SpecifiedTensor& tensor = specification_.tensors[t];
      if (tensor.kind == Kind::kLoss) {
        reached[t] = 1;
        any = true;
      }
      if (reached[t] == 0) continue;
      // The tensors that it follows from stand before it.
      for (const std::uint32_t input : tensor.from) reached[input] = 1;
      if (tensor.same) reached[*tensor.same] = 1;
    }
    if (!any) return;
    for (std::size_t t = 0; t < specification_.tensors.size(); ++t) {
      const specification::SpecifiedTensor& tensor = specification_.tensors[t];
      if (tensor.kind != Kind::kParam || reached[t] != 0 || !trained_.contains(tensor.name)) {
        continue;
      }
      note(t, out_.without_loss);
    }
  }

  void find_coarser_type() {
    const auto stored = comparison::coarsest_stored(manifest_);
    double coarsest = stored ? specification::unit_roundoff(*stored) : 0;
    for (const specification::Pattern* pattern : specification_.all_patterns()) {
      for (const specification::Node& node : pattern->nodes) {
        if (specification::unit_roundoff(node.dtype) <= coarsest) continue;
        coarsest = specification::unit_roundoff(node.dtype);
        out_.coarser = node.dtype;
      }
    }
  }

  void note(std::size_t tensor, StepCoverage::Cut& cut) const {
    if (cut.tensors++ == 0) cut.first = specification::describe_tensor(specification_, tensor);
  }

  const specification::Specification& specification_;
  const trace::Manifest& manifest_;
  const comparison::Selection& selection_;
  const std::vector<AuditedTensor>& tensors_;
  const JudgedValues& judged_;
  std::map<std::uint64_t, Microbatches> steps_;
  RunVariants variants_;
  std::set<std::uint64_t> skipped_;  // which a GradScaler left without updates
  std::set<TensorKey> recorded_;
  std::set<std::string> trained_;
  StepCoverage out_;
};

}  // namespace

bool is_computed(const TensorKey& key) {
  if (key.kind == Kind::kInput) return module_of(key) != trace::kWholeModel;
  return comparison::is_computed(key.kind) && !trace::is_factor_of_loss(key);
}

bool must_be_derived(const specification::Specification& specification, const TensorKey& key) {
  if (key.kind != Kind::kInput || !is_computed(key)) return is_computed(key);
  const std::string module = module_of(key);
  for (std::size_t t = 0; t < specification.tensors.size(); ++t) {
    const Kind kind = specification.tensors[t].kind;
    if (kind != Kind::kInput && kind != Kind::kOutput) continue;
    const std::string other = module_of(specification.key_of(t));
    if (other == trace::kWholeModel || module.starts_with(other + ".")) return true;
  }
  return false;
}

StepCoverage cover_step(const specification::Specification& specification,
                        const trace::Manifest& manifest, const comparison::Selection& selection,
                        const std::vector<AuditedTensor>& tensors, const JudgedValues& judged) {
  return Coverage(specification, manifest, selection, tensors, judged).cover();
}

}  // namespace ttrace::audit
