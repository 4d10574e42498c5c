#include "compare/same_values.h"

#include <cmath>
#include <vector>

#include "tensor/round_to.h"

namespace ttrace::compare {

bool same_values(const TensorRef& a, const TensorRef& b) {
  const auto reader_a = a.open(Replicas::kFirstOnly);
  const auto reader_b = b.open(Replicas::kFirstOnly);
  const tensor::DType coarser = tensor::epsilon(a.view->dtype) > tensor::epsilon(b.view->dtype)
                                    ? a.view->dtype
                                    : b.view->dtype;
  bool same = true;
  std::vector<double> values_a;
  std::vector<double> values_b;
  tensor::for_each_slab(tensor::whole(a.view->shape), kBandElements, [&](const tensor::Box& slab) {
    if (!same) return;
    values_a.resize(tensor::volume(slab));
    values_b.resize(values_a.size());
    reader_a->read(slab, values_a);
    reader_b->read(slab, values_b);
    for (std::size_t i = 0; i < values_a.size(); ++i) {
      const double x = tensor::round_to(coarser, values_a[i]);
      const double y = tensor::round_to(coarser, values_b[i]);
      same = same && (x == y || (std::isnan(x) && std::isnan(y)));
    }
  });
  return same;
}

}  // namespace ttrace::compare
