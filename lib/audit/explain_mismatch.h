// Explains why a tensor does not follow from its inputs: by ranks that stand out, and by the causes
// that a comparison would name, with the expected value in the reference's place.
#pragma once

#include <string>
#include <vector>

#include "audit/record.h"
#include "measure/backend.h"
#include "measure/tensor_reader.h"
#include "specification/evaluate/judge_expression.h"
#include "specification/primitives/value.h"
#include "trace/source.h"

namespace ttrace::audit {

// `value`, of the entry's shape, as a tensor that can be measured. `entry` must outlive it.
measure::TensorRef expected_tensor(const trace::Source& run, const trace::TensorEntry& entry,
                                   const specification::Value& value);

// In words, for one that does not follow.
std::string reason_of_mismatch(const specification::ExpressionJudgement& judged,
                               const AuditedTensor& tensor);

// Whether a step has left the tensor as it was before, to the bit; adds the cause that says so.
// `before` may be null. Throws an input error if it cannot be read.
bool explain_unmoved(const trace::Source& run, const trace::TensorEntry* before,
                     const trace::TensorEntry& entry, AuditedTensor& tensor);

// Adds ranks to `check` where the error sits in some of them, and causes to `tensor`, named and
// rejected ones. `allowed`:
// the largest ‖recorded - expected‖ that is rounding.
// `terms`: the raw gradients that a main gradient is the sum of, to find which it lacks.
void explain_mismatch(const trace::Source& run, const trace::TensorEntry& entry,
                      const measure::TensorRef& expected, double allowed,
                      const measure::Backend& backend, AuditCheck& check, AuditedTensor& tensor,
                      const std::vector<const trace::TensorEntry*>& terms = {});

}  // namespace ttrace::audit
