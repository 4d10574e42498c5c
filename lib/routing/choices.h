// What a router chose for every token, by which scores, and where two runs chose differently.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "measure/measure.h"

namespace ttrace::routing {

// Reads single rows of a tensor with a row for every token, and keeps the last. Not thread-safe.
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

// The scores by which a router chooses: recorded, or computed again from its input and weight. Not
// thread-safe.
class Scores {
 public:
  virtual ~Scores() = default;
  // The score of an expert for a token. Throws an input error if a shard cannot be read.
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

// How a tensor says which experts a token goes to.
enum class Spelling {
  kMap,      // a column for every expert, not zero where chosen
  kIndices,  // the numbers of the chosen experts
};

// The same decision of two runs.
struct Decision {
  measure::TensorRef reference;
  measure::TensorRef candidate;  // of the same shape
  Spelling spelling = Spelling::kMap;
  std::uint64_t tokens = 0;  // rows of the tensor
  std::uint64_t experts = 0;
};

// Returns the tokens for which the runs chose differently, ascending. Reads both tensors box by
// box.
std::vector<std::uint64_t> flipped_tokens(const Decision& decision);

// Returns the chosen experts of one row, ascending; nothing if it names one that does not exist, or
// one twice.
std::optional<std::vector<std::uint64_t>> experts_of(std::span<const double> row, Spelling spelling,
                                                     std::uint64_t experts);

// The experts of a token that only one of the runs chose. If both chose the same in another order:
// those that are out of place.
struct Moved {
  std::vector<std::uint64_t> left;    // of the reference
  std::vector<std::uint64_t> joined;  // of the candidate
};

// Nothing if either row is impossible or they choose different numbers of experts.
std::optional<Moved> moved(std::span<const double> reference, std::span<const double> candidate,
                           Spelling spelling, std::uint64_t experts);

// In which order a token's experts stand.
enum class Order {
  kByNumber,  // only which they are counts
  kByScore,   // the best first
};

// Returns the numbers of the `chosen` experts with the highest scores, [tokens, chosen], in memory:
// 8 bytes an element. Among equal scores, and among NaN, the lower number counts as better, as for
// torch.topk on the CPU. 0 < chosen <= experts. `of` is the tensor that the choice stands for.
// Throws an input error if a shard cannot be read.
measure::TensorRef implied_choice(const measure::TensorRef& of, Scores& scores,
                                  std::uint64_t tokens, std::uint64_t experts, std::uint64_t chosen,
                                  Order order);

}  // namespace ttrace::routing
