#include "measure/left_out_rows.h"

#include <algorithm>

namespace ttrace::measure {

std::optional<std::size_t> row_dimensions(const tensor::Shape& shape, std::uint64_t rows) {
  std::uint64_t count = 1;
  for (std::size_t d = 0; d <= shape.size(); ++d) {
    if (d > 0) {
      if (count != 0 && shape[d - 1] > rows / count) return std::nullopt;  // more rows than asked
      count *= shape[d - 1];
    }
    if (count == rows && d > 0) return d;
  }
  return std::nullopt;
}

void LeftOutRows::add(const LeftOutRows& other) {
  for (std::size_t i = 0; i < out_.size(); ++i) {
    if (other.out_[i]) out_[i] = true;
  }
}

std::uint64_t LeftOutRows::count() const {
  return static_cast<std::uint64_t>(std::count(out_.begin(), out_.end(), true));
}

void LeftOutRows::apply(const tensor::Shape& shape, const tensor::Box& box,
                        std::span<const double> reference, std::span<double> candidate) const {
  const auto dims = row_dimensions(shape, rows());
  if (!dims) return;
  const auto lead = static_cast<std::ptrdiff_t>(*dims);
  const tensor::Shape counted(shape.begin(), shape.begin() + lead);
  const tensor::Box leading{{box.origin.begin(), box.origin.begin() + lead},
                            {box.extent.begin(), box.extent.begin() + lead}};
  std::uint64_t length = 1;
  for (std::size_t d = *dims; d < shape.size(); ++d) length *= box.extent[d];
  const std::uint64_t here = tensor::volume(leading);
  for (std::uint64_t i = 0; i < here; ++i) {
    if (!out_[tensor::position(counted, tensor::coordinates(leading, i))]) continue;
    const auto from = reference.subspan(i * length, length);
    std::copy(from.begin(), from.end(),
              candidate.begin() + static_cast<std::ptrdiff_t>(i * length));
  }
}

}  // namespace ttrace::measure
