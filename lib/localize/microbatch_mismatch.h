// Whether both runs took the same micro-batches, under the same numbers.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "comparison/result.h"
#include "measure/backend.h"
#include "trace/manifest.h"
#include "trace/source.h"

namespace ttrace::localize {

// Returns the first step whose micro-batches differ between the runs, or nothing. They differ if
// one run has micro-batches that the other lacks, or if each diverged value of the candidate equals
// the reference's value of exactly one other micro-batch, or if ranks of one axis got different
// inputs of the model under one number, which comes first. The function looks at the tensor that
// diverged first and at the loss, and reads these again; it ignores one that it cannot read.
// `results`: judged, in the order of the data flow.
std::optional<comparison::MicrobatchMismatch> find_microbatch_mismatch(
    const trace::Source& reference, const trace::Source& candidate, const measure::Backend& backend,
    const std::vector<comparison::TensorComparison>& results);

// Returns the first step in which the candidate has micro-batches that the reference lacks, by what
// both manifests list, or nothing. A step that one run lacks, or has no micro-batches of, is passed
// over.
std::optional<comparison::MicrobatchMismatch> lacking_microbatches(
    const trace::Manifest& reference, const trace::Manifest& candidate);

// "the candidate has 4 micro-batches in step 0, the reference 2"; "micro-batches 1 and 2 of the
// candidate are 2 and 1 of the reference".
std::string describe_mismatch(const comparison::MicrobatchMismatch& mismatch);

// "candidate 0, 1, 2 and 3, reference 0 and 1".
std::string describe_numbers(const comparison::MicrobatchMismatch& mismatch);

// What to do about it, in words.
std::string remedy_of(const comparison::MicrobatchMismatch& mismatch);

}  // namespace ttrace::localize
