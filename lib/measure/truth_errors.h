// Measures how far a reference and a candidate are from the same tensor of a high-precision run:
// this tells which of two differing roundings is the better one.
#pragma once

#include <cstdint>
#include <optional>

#include "measure/backend.h"
#include "measure/tensor_reader.h"

namespace ttrace::measure {

struct TruthErrors {
  // Frobenius norms over the elements that are finite in all three tensors.
  double candidate_error_norm = 0;  // ‖C - T‖
  double reference_error_norm = 0;  // ‖R - T‖
  double truth_norm = 0;            // ‖T‖
  std::uint64_t elements = 0;       // those that are finite in all three
  std::uint64_t left_out = 0;       // the others
  std::uint64_t bytes_read = 0;
};

// Returns ‖C - T‖ / ‖R - T‖: infinite where only the candidate has an error; nothing where neither
// has one, where no element is finite, or where squares overflow.
std::optional<double> error_ratio(const TruthErrors& errors);

// All three must have the same shape. Reads them box by box in bounded memory, of replicas the
// first. Throws an input error if a shard cannot be read.
TruthErrors measure_truth(const Backend& backend, const TensorRef& truth,
                          const TensorRef& reference, const TensorRef& candidate);

}  // namespace ttrace::measure
