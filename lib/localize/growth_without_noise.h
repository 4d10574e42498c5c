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

// The same of gradients computed in TF32 where no activation exceeds the rule, which is a thousand
// times wider: they reach 1.9 in a VGG, those of a convolution's weight, sums over pixels, 1.13 in
// a U-Net. Where activations do, as in a ResNet-50, they reach 83. Of a norm or a bias such sums
// cancel. Those of a matrix do not grow by themselves.
inline constexpr double kMostGrowthInTf32 = 2;
inline constexpr double kMostGrowthOfMatricesInTf32 = 1;
inline constexpr double kMostGrowthOfSumsInTf32 = 32;

// Whether the network has a convolution: a parameter of four dimensions or more, or a module of
// that class.
bool convolves(const trace::Manifest& manifest);

// For networks that convolve, in f32 (products in TF32 or not) and f64: what is allowed of narrower
// types is so wide that nothing would be found. Goes through the tensors in the order of the data
// flow: one that diverged by the fallback rule is not judged if it is off by at most as many times
// what is allowed, or what those are that it is computed from, with or without the room of kinks.
// Sets out.growth.
void leave_growth_unjudged(const Dataflow& flow, comparison::CompareReport& out);

}  // namespace ttrace::localize
