// What an audit has judged of the optimizer's steps of a run, and whether they moved a parameter.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "answer/update_coverage.h"
#include "audit/record.h"
#include "comparison/selection.h"
#include "specification/specification.h"
#include "trace/source.h"

namespace ttrace::audit {

struct AuditedUpdates : answer::UpdateCoverage {
  // Whether a step of the run claims an update: it has settings of an optimizer that did not skip
  // it, or parameters after it.
  bool claimed = false;
  // Steps whose updates left every parameter as it was, to the bit, ascending: nothing shows in
  // them that an optimizer was there. And those of them in which it should do nothing: the first
  // update of a learning rate that begins at 0.
  std::vector<std::uint64_t> unmoved;
  std::vector<std::uint64_t> at_rest;

  // "no parameter moved in step 0", "no update was recorded", or empty.
  std::string describe_unmoved() const;
  // Why the updates say too little for the run to hold, or empty.
  std::string why_inconclusive() const;
};

// `tensors`, those that were selected, have their outcomes. `specification` may be null. Counts the
// updates of recorded parameters, and those that the run claims and lacks. Reads parameters until
// it finds one that moved; one that cannot be read counts as moved.
AuditedUpdates audited_updates(const trace::Source& run,
                               const specification::Specification* specification,
                               const comparison::Selection& selection,
                               const std::vector<AuditedTensor>& tensors);

// Where all moments that a step begins with are 0 to the bit although every parameter has been
// updated before, by the optimizer's own counts, and a gradient comes: the state was not loaded
// with the count. The states of such a step get a check that says so. Says nothing of a step in
// which one moment is not 0 (a parameter may have had no gradient so far), of fewer than two
// moments, and of optimizers without moments. `tensors` have their norms.
void check_moments(const trace::Manifest& manifest, std::vector<AuditedTensor>& tensors);

// Adds a check to the main gradients of parameters that the specification's optimizers update in
// that step, and that no optimizer of the run has: they are never updated. Only where the run's
// optimizers have most of the others, so that their names are the specification's.
void check_groups(const specification::Specification& specification,
                  const trace::Manifest& manifest, std::vector<AuditedTensor>& tensors);

}  // namespace ttrace::audit
