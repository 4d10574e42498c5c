// What must hold of every tensor of a run whatever it was computed from: its replicas agree, it is
// finite, every rank that holds it recorded it. And the replay of the optimizer.
#pragma once

#include <atomic>
#include <string>
#include <string_view>
#include <vector>

#include "audit/record.h"
#include "comparison/checkpoint/checkpoint.h"
#include "comparison/division.h"
#include "comparison/measure_pairs.h"
#include "comparison/result.h"
#include "comparison/selection.h"
#include "measure/backend.h"
#include "specification/specification.h"
#include "trace/source.h"

namespace ttrace::audit {

// The check that an updated parameter is what its optimizer's rule makes of what the run recorded.
inline constexpr std::string_view kOptimizerStep = "optimizer step";

// Measures a run against itself: one record per selected tensor, in the order of the keys, with its
// replicas, its non-finite elements, and the replay of updated parameters. Records that cannot be
// read are unreadable, those that a rank lacks are missing. `work`: what is measured already, and
// where measurements are recorded; may be null. Once `stop` is true, records stay as they are and
// are marked as interrupted. The specification, if any, says which updates are not those of an
// optimizer alone; where it follows none, the run says it itself.
std::vector<comparison::TensorComparison> measure_itself(
    const trace::Source& run, const comparison::Selection& selection,
    const specification::Specification* specification, const measure::ExecutionContext& execution,
    comparison::Checkpoint* work = nullptr, const comparison::WorkDivision& division = {},
    const std::atomic<bool>* stop = nullptr);

// Names the unit that stays in one part when an audit is divided: a layer and direction of a
// micro-batch, whose tensors are computed from each other.
std::string unit_of_audit(const trace::TensorKey& key);

// Returns the tensor of the record, with the checks that the record decides. The type that the run
// says it computed in widens them, up to `coarsest`.
AuditedTensor audited(const comparison::TensorComparison& record, tensor::DType coarsest);

}  // namespace ttrace::audit
