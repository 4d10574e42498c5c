// What may be no error where no noise run says how far a network carries roundings. The method:
// lib/judge/README.md, "The fallback rule".
#pragma once

#include "comparison/result.h"
#include "localize/dataflow.h"
#include "trace/manifest.h"

namespace ttrace::localize {

// By how many times an activation or loss of a healthy network with convolutions may exceed the
// fallback rule, or exceed it more than those that it is computed from: a ResNet-50 and a wav2vec 2
// of other kernels reach 3.
inline constexpr double kMostGrowth = 8;
// The same of gradients: those of a batch norm cancel (20), and rounding puts single elements on
// the other side of a ReLU (70 in a ResNet-50).
inline constexpr double kMostGrowthOfGradients = 256;

// Whether the network has a convolution: a parameter of four dimensions or more, or a module of
// that class.
bool convolves(const trace::Manifest& manifest);

// For networks that convolve, in f32 and f64: what is allowed of narrower types is so wide that
// nothing would be found. Goes through the tensors in the order of the data flow: one that
// diverged by the fallback rule is not judged if it is off by at most as many times what is
// allowed, or what those are that it is computed from. Sets out.growth.
void leave_growth_unjudged(const Dataflow& flow, comparison::CompareReport& out);

}  // namespace ttrace::localize
