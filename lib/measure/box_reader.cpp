#include "measure/box_reader.h"

namespace ttrace::measure {

const InputBox& BoxReader::read(const tensor::Box& box) {
  input_.box = box;
  if (const auto stored = tensor_->read_stored(box)) {
    input_.values = *stored;
    return input_;
  }
  numbers_.resize(tensor::volume(box));
  tensor_->read(box, numbers_);
  input_.values = {std::as_bytes(std::span(numbers_)), tensor::DType::kFloat64, 1};
  return input_;
}

const InputBox& BoxReader::read_integers(const tensor::Box& box) {
  input_.box = box;
  integers_.resize(tensor::volume(box));
  tensor_->read_integers(box, integers_);
  input_.values = {std::as_bytes(std::span(integers_)),
                   is_u64_ ? tensor::DType::kUInt64 : tensor::DType::kInt64, 1};
  return input_;
}

std::span<double> BoxReader::decode_input() {
  const std::span<const std::byte> numbers = std::as_bytes(std::span(numbers_));
  if (input_.values.bits.data() != numbers.data()) {
    numbers_.resize(tensor::volume(input_.box));
    decode(input_.values, numbers_);
    input_.values = {std::as_bytes(std::span(numbers_)), tensor::DType::kFloat64, 1};
  }
  return numbers_;
}

}  // namespace ttrace::measure
