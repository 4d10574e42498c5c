#include "compare/sketch.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace ttrace::compare {
namespace {

std::uint64_t mixed(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

double norm_of(const Sketch& sketch) {
  double sum = 0;
  for (const double value : sketch) sum += value * value;
  return std::sqrt(sum);
}

}  // namespace

Sketch sketch_of(const TensorRef& tensor) {
  Sketch sketch{};
  std::uint64_t at = 0;
  std::vector<double> values;
  const auto reader = tensor.open(Replicas::kFirstOnly);
  const tensor::Box whole = tensor::whole(tensor.view->shape);
  tensor::for_each_slab(whole, kBandElements, [&](const tensor::Box& slab) {
    values.resize(tensor::volume(slab));
    reader->read(slab, values);
    for (const double value : values) {
      const std::uint64_t hash = mixed(++at * 0x9e3779b97f4a7c15ULL);
      sketch[hash % sketch.size()] += (hash >> 63) != 0 ? -value : value;
    }
  });
  return sketch;
}

double sketch_distance(const Sketch& a, const Sketch& b) {
  Sketch difference{};
  for (std::size_t i = 0; i < a.size(); ++i) difference[i] = a[i] - b[i];
  const double larger = std::max(norm_of(a), norm_of(b));
  const double distance = norm_of(difference);
  if (!std::isfinite(larger) || !std::isfinite(distance)) {
    return std::numeric_limits<double>::infinity();
  }
  return larger > 0 ? distance / larger : 0;
}

}  // namespace ttrace::compare
