// How much of a step a trace holds, and an audit has judged. The step is what the specification
// says it is: a trace that holds little of it has little that could be wrong.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "audit/record.h"
#include "comparison/selection.h"
#include "specification/specification.h"
#include "tensor/dtype.h"
#include "trace/key.h"
#include "trace/manifest.h"

namespace ttrace::audit {

// Whether a step computes the tensor, whatever a specification says: outputs, the loss, gradients,
// the gradient norm, updated parameters, and inputs of modules inside the model; but not the number
// that a script multiplies a loss by.
bool is_computed(const trace::TensorKey& key);

// The same of a tensor that the specification derives from nothing. If no module around a module
// has inputs or outputs there, as where a script calls actor and critic and not the model that
// holds both, the script gave it its inputs.
bool must_be_derived(const specification::Specification& specification,
                     const trace::TensorKey& key);

// The tensors of the specification (their originals) that judged expressions compute, by step and
// micro-batch: the judged tensors themselves, and those that are computed on the way to them.
using JudgedValues =
    std::map<std::pair<std::uint64_t, std::optional<std::uint64_t>>, std::set<std::uint32_t>>;

struct StepCoverage {
  // Tensors of the step, by kind, that the trace lacks and that no judged expression contains.
  std::map<trace::Kind, std::uint64_t> lacking;
  // Names under which parameters get a gradient in the step, and those without a judged raw
  // gradient: no formula for it could be evaluated.
  std::uint64_t parameters = 0;
  std::vector<std::string> unjudged_gradients;  // in the order of their names
  std::string reason;                           // why most of these were not judged
  // Losses whose factor the run should have recorded and did not: the factor is not known, even if
  // the loss is another name of a recorded output.
  std::uint64_t unknown_factors = 0;
  // Signs of a specification that has been cut: computed tensors that it derives from nothing, and
  // parameters that get a gradient although the loss does not follow from them.
  struct Cut {
    std::uint64_t tensors = 0;
    std::string first;
  };
  Cut without_origin;
  Cut without_loss;
  // The type that the specification rounds to, if it is coarser than all that the trace stores:
  // bounds are as wide as it.
  std::optional<tensor::DType> coarser;
};

// `tensors` have their outcomes. Only tensors of the selection count.
StepCoverage cover_step(const specification::Specification& specification,
                        const trace::Manifest& manifest, const comparison::Selection& selection,
                        const std::vector<AuditedTensor>& tensors, const JudgedValues& judged);

}  // namespace ttrace::audit
