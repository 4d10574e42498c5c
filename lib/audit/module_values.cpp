#include "audit/module_values.h"

#include <cmath>

#include "tensor/box.h"

namespace ttrace::audit {

const trace::TensorEntry* only_value_of(const trace::Manifest& manifest,
                                        const trace::TensorKey& key, trace::Kind kind,
                                        const std::string& module) {
  const trace::TensorEntry* found = nullptr;
  for (const trace::TensorEntry& entry : manifest.tensors) {
    if (entry.key.kind != kind || entry.key.name != module || entry.key.step != key.step ||
        entry.key.microbatch != key.microbatch) {
      continue;
    }
    if (found != nullptr) return nullptr;
    found = &entry;
  }
  return found;
}

std::vector<double> values_of(const measure::TensorRef& tensor) {
  const tensor::Box all = tensor::whole(tensor.view->shape);
  std::vector<double> values(tensor::volume(all));
  tensor.open(measure::Replicas::kFirstOnly)->read(all, values);
  return values;
}

double distance(const std::vector<double>& a, const std::vector<double>& b) {
  double square = 0;
  for (std::size_t j = 0; j < a.size(); ++j) square += (a[j] - b[j]) * (a[j] - b[j]);
  return std::sqrt(square);
}

}  // namespace ttrace::audit
