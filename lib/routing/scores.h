// The scores by which a router chooses: recorded, or made again from what it was given.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "compare/measure.h"
#include "routing/token_rows.h"

namespace ttrace::routing {

struct Score {
  double value = 0;
  double rounding = 0;  // how far the router's own arithmetic may have been from it
};

// Not thread-safe.
class Scores {
 public:
  virtual ~Scores() = default;
  // Of an expert for a token. Throws an input error if a shard cannot be read.
  virtual Score of(std::uint64_t token, std::uint64_t expert) = 0;
  virtual std::uint64_t bytes_read() const = 0;
};

// A tensor with a row for every token and a column for every expert, `epsilon` that of its
// precision. Rounding: one `epsilon` of the score, and a quarter for a softmax or sigmoid after it.
std::unique_ptr<Scores> recorded_scores(const compare::TensorRef& scores, std::uint64_t tokens,
                                        double epsilon);

// x·Wᵀ + b in binary64: x a row for every token, W [experts, length of a row], b [experts] or
// nothing. Rounding: as above, and that of sums in f32, 4·2⁻²³·Σ|x·w|.
std::unique_ptr<Scores> linear_scores(const compare::TensorRef& input,
                                      const compare::TensorRef& weight,
                                      const std::optional<compare::TensorRef>& bias,
                                      std::uint64_t tokens, double epsilon);

}  // namespace ttrace::routing
