// Reads boxes of one tensor as inputs of a backend.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "measure/backend.h"
#include "measure/tensor_reader.h"

namespace ttrace::measure {

class BoxReader {
 public:
  // `is_u64`: how integers are to be read, which keep their bits in an int64.
  explicit BoxReader(std::unique_ptr<TensorReader> tensor, bool is_u64 = false)
      : tensor_(std::move(tensor)), is_u64_(is_u64) {}

  TensorReader& tensor() { return *tensor_; }
  const TensorReader& tensor() const { return *tensor_; }

  // As stored where one shard makes up the box, else decoded. Valid until the next read.
  const InputBox& read(const tensor::Box& box);
  // Exact integers, decoded.
  const InputBox& read_integers(const tensor::Box& box);

  // Decodes what was read last, to be changed: input() then holds these numbers.
  std::span<double> decode_input();
  const InputBox& input() const { return input_; }

 private:
  std::unique_ptr<TensorReader> tensor_;
  bool is_u64_;
  InputBox input_;
  std::vector<double> numbers_;
  std::vector<std::int64_t> integers_;
};

}  // namespace ttrace::measure
