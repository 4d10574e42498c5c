#include "audit/update_formulas.h"

#include <algorithm>

#include "base/message.h"

namespace ttrace::audit {

using base::render;
using trace::Kind;

bool is_of_update(Kind kind) {
  return kind == Kind::kMainGrad || kind == Kind::kGradNorm || kind == Kind::kOptimizerState ||
         is_left_by_step(kind);
}

bool is_left_by_step(Kind kind) {
  return kind == Kind::kParamAfterStep || kind == Kind::kBufferAfterStep;
}

UpdateFormulas::UpdateFormulas(const specification::Specification& specification,
                               const trace::Manifest& run)
    : specification_(specification) {
  if (!specification.update) return;
  for (const trace::OptimizerGroup& group : run.optimizer) {
    if (group.step != specification.update->step) continue;
    for (const std::string& name : group.params) groups_.emplace(name, &group);
  }
  for (const trace::TensorEntry& entry : run.tensors) {
    if (entry.key.step != specification.update->step || !is_of_update(entry.key.kind)) continue;
    entries_.emplace(entry.key, &entry);
  }
}

std::string UpdateFormulas::other_input(const specification::SpecifiedTensor& tensor) const {
  for (const std::uint32_t input : tensor.from) {
    const specification::SpecifiedTensor& one = specification_.tensors[input];
    trace::TensorKey key = specification_.key_of(input);
    key.step = specification_.update->step;
    const auto found = entries_.find(key);
    if (found == entries_.end()) continue;  // the formula says that it is lacking
    if (found->second->dtype == one.dtype && found->second->shape == one.shape) continue;
    return render({"{tensor} has another type or shape than in the specification",
                   {{"tensor", to_string(key)}}});
  }
  return "";
}

std::string UpdateFormulas::why_not(const trace::TensorKey& key) const {
  const auto number = specification_.find(key);
  if (!number) return render({"the specification does not have it", {}});
  const specification::SpecifiedTensor& tensor = specification_.tensors[*number];
  if (!tensor.pattern && !tensor.same) {
    return tensor.opaque.empty()
               ? render({"the specification does not say what it follows from", {}})
               : render({"the specification cannot express {operation}",
                         {{"operation", tensor.opaque}}});
  }
  if (!specification_.update || key.step != specification_.update->step) {
    return render({"the specification follows the updates of another step", {}});
  }
  if (std::string other = other_input(tensor); !other.empty()) return other;
  if (key.kind == Kind::kBufferAfterStep) return "";
  const auto specified = specification_.update->settings.find(key.name);
  const auto group = groups_.find(key.name);
  if (specified == specification_.update->settings.end() || group == groups_.end()) {
    return render({"its optimizer did not update it in the specification and in this run", {}});
  }
  if (group->second->type != specified->second.type ||
      group->second->numbers != specified->second.numbers) {
    return render({"its optimizer has other settings than in the specification", {}});
  }
  const bool reads_gradient = std::ranges::any_of(tensor.from, [&](std::uint32_t input) {
    const specification::SpecifiedTensor& one = specification_.tensors[input];
    return one.kind == Kind::kMainGrad && one.name == key.name;
  });
  return reads_gradient ? ""
                        : render({"its formula in the specification reads no gradient of it", {}});
}

}  // namespace ttrace::audit
