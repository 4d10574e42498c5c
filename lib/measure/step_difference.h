// How the steps that two runs take from a parameter to its updated values differ.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "measure/tensor_reader.h"

namespace ttrace::measure {

// Sums over the steps U = P' - P of the reference, V of the candidate, and D = V - U.
struct StepSums {
  std::uint64_t elements = 0;
  double rr = 0;
  double cc = 0;
  double dd = 0;
  double rd = 0;

  void add(double of_reference, double of_candidate);
  // What is left of dd if the candidate's step is a multiple of the reference's.
  double left_by_factor() const;
};

// A parameter before and after its step, and the gradient that it was made from, where known. All
// of one shape.
struct UpdatedParameter {
  TensorRef before;
  TensorRef after;
  std::optional<TensorRef> gradient;
};

struct StepDifference {
  StepSums total;
  std::vector<StepSums> parts;  // of each of the given parts
  double along_parameter = 0;   // Σ D·P of the reference
  double parameter = 0;         // Σ P² of the reference
  // dd of the elements whose gradients agree: rounding of the gradient explains none of it. Without
  // what the stored type cannot tell apart.
  double unexplained = 0;

  // What is left of dd if the candidate's step has a multiple of the parameter too much.
  double left_by_parameter() const;
  // If the candidate's step is a multiple of the reference's in each part; nothing if a part that
  // differs has too few elements to tell.
  std::optional<double> left_by_parts() const;
};

// Gradients agree where they differ by at most this share of the reference's.
inline constexpr double kSameGradient = 1.0 / 256;

// `parts` must be disjoint and together the whole tensor; else the whole is the only part. Throws
// base::InputError if a tensor cannot be read. Sums in binary64; elements that are not finite make
// their sums so.
StepDifference difference_of_steps(const UpdatedParameter& reference,
                                   const UpdatedParameter& candidate,
                                   const std::vector<RankBoxes>& parts);

}  // namespace ttrace::measure
