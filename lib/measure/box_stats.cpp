#include "measure/box_stats.h"

#include <cmath>

#include "measure/cpu/kernel.h"
#include "measure/cpu/requests.h"
#include "measure/sections.h"

namespace ttrace::measure {

TileStats box_stats(const tensor::Box& box, std::span<const double> reference,
                    std::span<const double> candidate) {
  const auto input = [&](std::span<const double> values) {
    return InputBox{box, {std::as_bytes(values), tensor::DType::kFloat64, 1}};
  };
  TileStats stats;
  PairRequest request{input(reference), input(candidate), box};
  request.stats = &stats;
  compute(*usable_kernels().front(), request);
  return stats;
}

std::vector<std::vector<double>> squared_errors_by_index(const TensorRef& reference,
                                                         const TensorRef& candidate) {
  const tensor::Shape& shape = reference.view->shape;
  std::vector<std::vector<double>> errors;
  for (const std::uint64_t extent : shape) errors.emplace_back(extent, 0.0);
  const auto of_reference = reference.open(Replicas::kFirstOnly);
  const auto of_candidate = candidate.open(Replicas::kFirstOnly);
  std::vector<double> r;
  std::vector<double> c;
  tensor::for_each_sub_box(tensor::whole(shape), kReadElements, [&](const tensor::Box& box) {
    r.resize(tensor::volume(box));
    c.resize(r.size());
    of_reference->read(box, r);
    of_candidate->read(box, c);
    tensor::Shape at = box.origin;
    for (std::size_t i = 0; i < r.size(); ++i) {
      const double square = (c[i] - r[i]) * (c[i] - r[i]);
      if (square > 0 && std::isfinite(square)) {
        for (std::size_t d = 0; d < at.size(); ++d) errors[d][at[d]] += square;
      }
      for (std::size_t d = at.size(); d-- > 0;) {
        if (++at[d] < box.origin[d] + box.extent[d]) break;
        at[d] = box.origin[d];
      }
    }
  });
  return errors;
}

}  // namespace ttrace::measure
