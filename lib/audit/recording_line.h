// The settings of the collector that would record what a trace lacks.
#pragma once

#include <string>
#include <vector>

#include "comparison/result.h"
#include "trace/key.h"
#include "trace/manifest.h"

namespace ttrace::audit {

// "TTRACE_KINDS=input,output,param TTRACE_MODULES=layers.0,layers.0.fc1": the settings of the
// collector that record what the trace holds and the tensors that it is `lacking`. Empty where
// other settings would not record more. Kinds that the collector does not know (`grad_input`),
// which it would refuse, are left out.
std::string recording_line(const trace::Manifest& manifest,
                           const std::vector<trace::TensorKey>& lacking);

// Whether a setting makes the collector record tensors of this kind.
bool collector_records(trace::Kind kind);
// Why no setting makes it record a tensor of this kind that the run lacks, as the end of a
// sentence; empty if one may.
std::string why_never_recorded(const trace::Manifest& manifest, trace::Kind kind);

// Sets `record_next` of the findings whose values were compared: the settings that also record the
// layer around the finding, that is inputs, outputs and gradients of its module and of all others
// in the same numbered layer. Leaves it empty if both runs were told to record these kinds, or if
// one of them does not say what it was told to record.
void add_recording_lines(const trace::Manifest& reference, const trace::Manifest& candidate,
                         const std::vector<comparison::TensorComparison>& results,
                         std::vector<comparison::ComparedFinding>& findings);

}  // namespace ttrace::audit
