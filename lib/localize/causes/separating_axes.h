// Which mesh axis tells disagreeing replicas apart.
#pragma once

#include <string>
#include <vector>

#include "measure/measure.h"

namespace ttrace::localize {

// The stored tensor whose copies differ. If the candidate's tensor is made of several, this is the
// one with the block where copies are furthest apart.
const trace::TensorEntry& part_that_differs(const measure::TensorRef& candidate,
                                            const measure::ReplicaDifference& replicas);

// Axes of that tensor's mesh that separate classes of agreeing replicas: two ranks that differ only
// in their coordinate on the axis may be in different classes. Empty if the replicas agree.
std::vector<std::string> separating_axes(const measure::TensorRef& candidate,
                                         const measure::ReplicaDifference& replicas);

// "tp 0 and tp 1", "rank 0 and ranks {2, 3}": the classes in words, by their coordinate where one
// axis tells them apart.
std::string describe_classes(const measure::TensorRef& candidate,
                             const measure::ReplicaDifference& replicas);

}  // namespace ttrace::localize
