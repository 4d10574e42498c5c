// Single rows of a tensor that has one for every token.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "compare/measure.h"

namespace ttrace::routing {

// Reads one row at a time and keeps the last. Not thread-safe.
class TokenRows {
 public:
  // The leading dimensions of the tensor must count `tokens` rows, as compare::row_dimensions
  // finds.
  TokenRows(const compare::TensorRef& tensor, std::uint64_t tokens);

  std::uint64_t tokens() const { return tokens_; }
  std::uint64_t length() const { return values_.size(); }
  // Valid until the next call. Throws an input error if a shard cannot be read.
  std::span<const double> row(std::uint64_t token);
  std::uint64_t bytes_read() const { return reader_->bytes_read(); }

 private:
  compare::TensorRef tensor_;
  std::uint64_t tokens_;
  tensor::Shape leading_;
  std::unique_ptr<compare::TensorReader> reader_;
  std::vector<double> values_;
  std::uint64_t at_;  // tokens_: none yet
};

}  // namespace ttrace::routing
