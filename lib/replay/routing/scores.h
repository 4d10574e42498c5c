// Reads the scores by which a router chooses: recorded, or computed again from its input and
// weight.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "measure/measure.h"

namespace ttrace::replay {

// Single rows of a tensor that has one for every token. Reads one row at a time and keeps the last.
// Not thread-safe.
class TokenRows {
 public:
  // The leading dimensions of the tensor must count `tokens` rows, as measure::row_dimensions
  // finds.
  TokenRows(const measure::TensorRef& tensor, std::uint64_t tokens);

  std::uint64_t tokens() const { return tokens_; }
  std::uint64_t length() const { return values_.size(); }
  // Valid until the next call. Throws an input error if a shard cannot be read.
  std::span<const double> row(std::uint64_t token);
  std::uint64_t bytes_read() const { return reader_->bytes_read(); }

 private:
  measure::TensorRef tensor_;
  std::uint64_t tokens_;
  tensor::Shape leading_;
  std::unique_ptr<measure::TensorReader> reader_;
  std::vector<double> values_;
  std::uint64_t at_;  // tokens_: none yet
};

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
std::unique_ptr<Scores> recorded_scores(const measure::TensorRef& scores, std::uint64_t tokens,
                                        double epsilon);

// x·Wᵀ + b in binary64: x a row for every token, W [experts, length of a row], b [experts] or
// nothing. Rounding: as above, and that of sums in f32, 4·2⁻²³·Σ|x·w|.
std::unique_ptr<Scores> linear_scores(const measure::TensorRef& input,
                                      const measure::TensorRef& weight,
                                      const std::optional<measure::TensorRef>& bias,
                                      std::uint64_t tokens, double epsilon);

}  // namespace ttrace::replay
