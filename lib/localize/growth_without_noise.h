// What may be no error where no noise run says how far a network carries roundings. The method:
// lib/judge/README.md, "The fallback rule".
#pragma once

#include "comparison/result.h"
#include "localize/dataflow.h"
#include "trace/manifest.h"

namespace ttrace::localize {

// How many times the tolerance of the fallback rule the error of an activation or loss may be in a
// healthy network with convolutions. If tensors that it is computed from exceed their tolerances,
// the largest of those excesses multiplies this. With other kernels, a ResNet-50 and a wav2vec 2
// reach 3.
inline constexpr double kMostGrowth = 8;
// The same for gradients. Those of a batch norm cancel (20), and rounding puts single elements on
// the other side of a ReLU (70 in a ResNet-50).
inline constexpr double kMostGrowthOfGradients = 256;

// The same for gradients computed in TF32, whose tolerance is a thousand times wider, in networks
// where no activation exceeds the rule: those of activations reach 1.9 in a VGG and 2.4 in a
// MobileNet V2 (behind a batch norm over 32 values), those of a convolution's weight, which are
// sums over pixels, 1.13 in a U-Net. Where activations exceed the rule, as in a ResNet-50,
// gradients reach 83. The sums of a norm's or a bias's gradient cancel; those of a matrix do not
// grow by themselves.
inline constexpr double kMostGrowthInTf32 = 4;
inline constexpr double kMostGrowthOfConvolutionsInTf32 = 2;
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
