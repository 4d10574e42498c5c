// Parts of answers that several commands have in common.
#pragma once

#include <string>
#include <vector>

#include "answer/answer.h"
#include "answer/audited_tensor.h"
#include "answer/environment.h"
#include "answer/trace_facts.h"
#include "comparison/division.h"
#include "comparison/tensor_selection.h"
#include "localize/place.h"

namespace ttrace::report {

answer::Answer::Run run_of(const answer::TraceFacts& facts);
// Nothing for a trace without files.
std::optional<answer::Answer::Identity> identity_of(const answer::TraceFacts& facts);
answer::Answer::Files files_of(const answer::TraceFacts& facts);
answer::Answer::Selected selected_of(const comparison::Selection& selection,
                                     std::optional<bool> common);
answer::Answer::Environment environment_of(const answer::Environment& environment);
answer::Answer::Part told_part(const comparison::PartOfWork& part);
answer::AnsweredFinding::Place place_told(const localize::Place& place);
// With their values by name.
std::vector<answer::Cause> told_causes(std::vector<answer::Cause> causes);

// The id, the key, and where the tensor is in the step and the model.
answer::AnsweredTensor tensor_of_key(const trace::TensorKey& key);
std::vector<answer::AnsweredTensor::Check> checks_of(const answer::AuditedTensor& tensor);

}  // namespace ttrace::report
