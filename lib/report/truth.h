// The second opinion of a report: errors against a run in higher precision. It decides nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "compare/truth_errors.h"
#include "tensor/dtype.h"
#include "trace/key.h"

namespace ttrace::report {

// Of one tensor.
struct TensorTruth {
  tensor::DType dtype = tensor::DType::kFloat32;  // the truth's
  compare::TruthErrors errors;
};

// What the ratios ‖C - T‖ / ‖R - T‖ of all tensors come to.
struct TruthRatios {
  std::uint64_t compared = 0;         // tensors with numbers
  std::uint64_t reference_exact = 0;  // of them, those whose reference has no error
  std::uint64_t unusable = 0;    // of them, those with nothing finite or with overflowing squares
  std::optional<double> median;  // over the finite ratios
  std::optional<double> worst;   // the largest finite ratio ...
  std::size_t worst_at = 0;      // ... and the index of its tensor
};

// `truths[i]` is tensor i's, null where it has none. Ties: the first.
TruthRatios truth_ratios(const std::vector<const TensorTruth*>& truths);

}  // namespace ttrace::report
