// Which mesh axis tells disagreeing replicas apart.
#pragma once

#include <string>
#include <vector>

#include "measure/measure.h"

namespace ttrace::localize {

// The part of the candidate's tensor whose copies differ: of one made of several, the stored tensor
// with the block where they are furthest apart.
const trace::TensorEntry& part_that_differs(const measure::TensorRef& candidate,
                                            const measure::ReplicaDifference& replicas);

// Axes of that part's mesh along which a step from one rank to another, all else equal, leads from
// one class of agreeing replicas into another. Empty if the replicas agree.
std::vector<std::string> separating_axes(const measure::TensorRef& candidate,
                                         const measure::ReplicaDifference& replicas);

// "tp 0 and tp 1", "rank 0 and ranks {2, 3}": the classes in words, by their coordinate where one
// axis tells them apart.
std::string describe_classes(const measure::TensorRef& candidate,
                             const measure::ReplicaDifference& replicas);

}  // namespace ttrace::localize
