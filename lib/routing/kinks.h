// Elements that rounding puts on the other side of a kink, such as that of a ReLU, or chooses as
// the maximum of a window in one run alone: their gradients are zero in one run alone. This is no
// bug, and all that follows from them is allowed as much more. The method: lib/localize/README.md,
// "Kinks".
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "comparison/result.h"
#include "judge/slices.h"
#include "localize/dataflow.h"
#include "trace/source.h"

namespace ttrace::routing {

// A flip reaches gradients before it in the network. Relative to their own norms, they are off by
// at most this many times what it moved of its own gradient, and as many times what the gradients
// are off that they are computed from. Measured over 40 flips each of OPT, T5, M2M-100 and a
// ResNet: at most 6.4 times as much as it moved, in the median 0.04 to 1; sums that cancel, as
// after a pooling, are off by more and stay diverged.
inline constexpr double kRoomOfKinks = 8;

// Flips move a tensor in directions of their own. Of what they are allowed of it, so much may lie
// along the reference, as a wrong factor does: one over the root of the elements, or of this many.
inline constexpr double kMostDirections = 1024;

struct KinkInput {
  const trace::Source& reference;
  const trace::Source& candidate;
  const std::vector<localize::FlowNode>& nodes;  // node i is out.results[i]
  const localize::Dataflow& flow;
};

// The part of `room`, kRoomOfKinks times what flips moved, that may lie along the reference, a norm
// of so many elements.
double room_along(double room, double reference_norm, std::uint64_t elements);

// Judges slices again with `room`, a norm, allowed on top for each; for scales room_along() of
// `flow`. Returns `judgement` unchanged if more slices are beyond their tolerance than it keeps.
judge::SliceJudgement with_room_of_kinks(judge::SliceJudgement judgement, double room, double flow);

// Goes through the gradients of inputs and outputs that diverged, in the order of the data flow.
// One is explained where a tensor of its shape, recorded beside it in the forward pass, matches and
// its elements flip within rounding (element_flips.h), and the gradient is within its tolerance in
// all others. It matches then, and so does every tensor downstream that diverged by no more than
// its tolerance plus the room that the flips allow (kRoomOfKinks). If the values do not show which
// kink it is, these are not judged instead. A gradient may match as a whole because noise runs flip
// other elements of it: it is examined if a tensor computed from it diverged, and then allows the
// same for slices of tensors alone. Sets out.kinks.
void explain_kinks(const KinkInput& input, comparison::CompareReport& out);

}  // namespace ttrace::routing
