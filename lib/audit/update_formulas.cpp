#include "audit/update_formulas.h"

#include <algorithm>

#include "base/message.h"

namespace ttrace::audit {

using base::render;
using trace::Kind;

bool is_left_by_step(Kind kind) {
  return kind == Kind::kParamAfterStep || kind == Kind::kBufferAfterStep;
}

trace::TensorKey before_step(trace::TensorKey key) {
  key.kind = key.kind == Kind::kBufferAfterStep ? Kind::kBuffer : Kind::kParam;
  return key;
}

UpdateFormulas::UpdateFormulas(const specification::Specification& specification,
                               const trace::Manifest& run) {
  for (const specification::Specification& one : specification.updates) {
    steps_.emplace(one.update->step, &one);
  }
  if (steps_.empty()) return;
  for (const trace::OptimizerGroup& group : run.optimizer) {
    for (const std::string& name : group.params)
      groups_.emplace(std::pair(group.step, name), &group);
  }
  for (const trace::TensorEntry& entry : run.tensors) {
    if (entry.microbatches) continue;
    entries_.emplace(entry.key, &entry);
    if (entry.key.microbatch) microbatches_[entry.key.step].insert(*entry.key.microbatch);
  }
}

std::string UpdateFormulas::other_input(const specification::Specification& of_step,
                                        const specification::SpecifiedTensor& tensor,
                                        std::uint64_t step) const {
  std::set<std::uint64_t> read;
  for (const std::uint32_t input : tensor.from) {
    const specification::SpecifiedTensor& one = of_step.tensors[input];
    if (one.microbatch) read.insert(*one.microbatch);
    trace::TensorKey key = of_step.key_of(input);
    key.step = step;
    const auto found = entries_.find(key);
    if (found == entries_.end()) continue;  // its expression says that it is lacking
    if (key.kind == Kind::kGradNorm && found->second->shape == one.shape) continue;
    if (found->second->dtype == one.dtype && found->second->shape == one.shape) continue;
    return render({"{tensor} has another type or shape than in the specification",
                   {{"tensor", to_string(key)}}});
  }
  const auto own = microbatches_.find(step);
  if (read.empty() || (own != microbatches_.end() && own->second == read)) return "";
  return render(
      {"step {step} has other micro-batches than in the specification", {{"step", step}}});
}

std::string UpdateFormulas::why_not(const trace::TensorKey& key) const {
  const auto step = steps_.find(key.step);
  if (step == steps_.end()) {
    return render({"the specification follows no update of step {step}", {{"step", key.step}}});
  }
  const specification::Specification& of_step = *step->second;
  const auto number = of_step.find(key);
  if (!number) return render({"the specification does not have it", {}});
  const specification::SpecifiedTensor& tensor = of_step.tensors[*number];
  if (!tensor.pattern && !tensor.same) {
    return tensor.opaque.empty()
               ? render({"the specification does not say what it follows from", {}})
               : render({"the specification cannot express {operation}",
                         {{"operation", tensor.opaque}}});
  }
  if (std::string other = other_input(of_step, tensor, key.step); !other.empty()) return other;
  if (key.kind == Kind::kBufferAfterStep) return "";
  const auto specified = of_step.update->settings.find(key.name);
  const auto group = groups_.find({key.step, key.name});
  const bool has_settings = specified != of_step.update->settings.end();
  const bool by_hand = of_step.update->rewritten.contains(key.name);
  if (by_hand && !has_settings && group == groups_.end()) return "";
  if (!has_settings || group == groups_.end()) {
    return render({"no optimizer updated it, in the specification or in this run", {}});
  }
  if (group->second->type != specified->second.type ||
      group->second->numbers != specified->second.numbers) {
    return render({"its optimizer has other settings than in the specification", {}});
  }
  const bool reads_gradient = std::ranges::any_of(tensor.from, [&](std::uint32_t input) {
    const specification::SpecifiedTensor& one = of_step.tensors[input];
    return one.kind == Kind::kMainGrad && one.name == key.name;
  });
  return reads_gradient || by_hand
             ? ""
             : render({"its formula in the specification reads no gradient of it", {}});
}

}  // namespace ttrace::audit
