#include "compare/box_values.h"

#include "tensor/decode.h"

namespace ttrace::compare {

void BoxValues::read(TensorReader& reader, const tensor::Box& box) {
  box_ = box;
  stored_ = reader.read_stored(box);
  decoded_ = !stored_;
  if (stored_) return;
  numbers_.resize(tensor::volume(box));
  reader.read(box, numbers_);
}

std::span<const double> BoxValues::numbers() {
  if (!decoded_) {
    numbers_.resize(tensor::volume(box_));
    decode(*stored_, numbers_);
    decoded_ = true;
  }
  return numbers_;
}

std::span<double> BoxValues::changed() {
  numbers();
  stored_.reset();
  return numbers_;
}

}  // namespace ttrace::compare
