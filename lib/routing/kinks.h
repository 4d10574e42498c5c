// Elements that rounding puts on the other side of a kink, such as that of a ReLU, or chooses as
// the maximum of a window in one run alone: their gradients are zero in one run alone. This is no
// bug, and all that follows from them is allowed as much more. The method: lib/localize/README.md,
// "Kinks".
#pragma once

#include <cstddef>
#include <vector>

#include "comparison/result.h"
#include "localize/dataflow.h"
#include "trace/source.h"

namespace ttrace::routing {

// A flip reaches gradients before it in the network. Relative to their own norms, they are off by
// about as much as its own gradient is. Measured over 40 flips each of OPT, T5, M2M-100 and a
// ResNet: at most 6.4 times as much, in the median 0.04 to 1; sums that cancel, as after a pooling,
// are off by more and stay diverged.
inline constexpr double kRoomOfKinks = 8;

struct KinkInput {
  const trace::Source& reference;
  const trace::Source& candidate;
  const std::vector<localize::FlowNode>& nodes;  // node i is out.results[i]
  const localize::Dataflow& flow;
};

// Goes through the gradients of inputs and outputs that diverged, in the order of the data flow.
// One is explained where a tensor of its shape, recorded beside it in the forward pass, matches and
// its elements flip within rounding (element_flips.h), and the gradient is within its tolerance in
// all others. It matches then, and so does every tensor downstream that
// diverged by no more than its tolerance plus kRoomOfKinks times what the flips moved, relative to
// the norms. A gradient may match as a whole because noise runs flip other elements of it: it is
// examined if a tensor computed from it diverged, and then allows the same for slices of tensors
// alone. Sets out.kinks.
void explain_kinks(const KinkInput& input, comparison::CompareReport& out);

}  // namespace ttrace::routing
