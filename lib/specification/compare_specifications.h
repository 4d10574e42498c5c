// What two specifications say differently of one model: a bug of the code, found without a run.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "specification/specification.h"

namespace ttrace::specification {

// Tensors that differ in the same way.
struct CodeDifference {
  std::string what;  // "eps of layer_norm is 1e-05 in the reference and 1e-06 in the candidate"
  std::vector<trace::TensorKey> tensors;  // without step and micro-batch, in the order of the step
  std::string module_class;               // of the first; or empty
  std::string called_at;
};

struct CodeComparison {
  std::uint64_t compared = 0;  // tensors that both compute
  std::vector<CodeDifference> differences;
  std::vector<std::string> warnings;
};

// Compares the expression of every tensor that both specifications have, from the tensors that both
// have. Reshapes do not count, neither does the order of sums and products of numbers; roundings
// count only if both are of one precision. Throws an input error, with the first difference, if the
// two are of other shapes or have nothing in common. The files are named in messages.
CodeComparison compare_specifications(const Specification& reference,
                                      const std::string& reference_file,
                                      const Specification& candidate,
                                      const std::string& candidate_file);

}  // namespace ttrace::specification
