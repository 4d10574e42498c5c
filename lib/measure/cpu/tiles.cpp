#include "measure/cpu/tiles.h"

#include <cstdint>

#include "tensor/codec.h"

namespace ttrace::measure {
namespace {

bool are_numbers(const StoredValues& values) {
  return values.dtype == tensor::DType::kFloat64 && values.scale == 1;
}

bool is_aligned(const std::byte* at) {
  return reinterpret_cast<std::uintptr_t>(at) % alignof(double) == 0;
}

}  // namespace

void decode(const StoredValues& values, std::uint64_t first, std::span<double> out) {
  const std::size_t width = tensor::element_bytes(values.dtype);
  tensor::decode_floats(values.dtype, values.bits.subspan(first * width, out.size() * width), out);
  if (values.scale == 1) return;
  for (double& value : out) value *= values.scale;
}

std::span<const double> numbers(const StoredValues& values, std::uint64_t first, std::size_t count,
                                std::span<double> scratch) {
  const std::byte* at = values.bits.data() + first * tensor::element_bytes(values.dtype);
  if (are_numbers(values) && is_aligned(at)) return {reinterpret_cast<const double*>(at), count};
  const std::span<double> out = scratch.first(count);
  decode(values, first, out);
  return out;
}

TileCursor::TileCursor(const InputBox& input, const tensor::Box& box)
    : values_(input.values),
      element_bytes_(tensor::element_bytes(input.values.dtype)),
      cursor_(box, input.box) {}

const std::byte* TileCursor::next(std::size_t count) {
  if (cursor_.is_one_run()) {
    const std::byte* here = values_.bits.data() + cursor_.offset() * element_bytes_;
    cursor_.skip(count);
    return here;
  }
  cursor_.gather(count, values_.bits.data(), element_bytes_, gathered_.data());
  return gathered_.data();
}

const std::byte* TileCursor::next_numbers(std::size_t count) {
  const std::byte* stored = next(count);
  if (are_numbers(values_)) return stored;
  const std::span<double> out(numbers_.data(), count);
  decode({{stored, count * element_bytes_}, values_.dtype, values_.scale}, 0, out);
  return std::as_bytes(out).data();
}

}  // namespace ttrace::measure
