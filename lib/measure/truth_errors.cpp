#include "measure/truth_errors.h"

#include <cmath>
#include <limits>
#include <memory>

#include "measure/box_reader.h"
#include "measure/sections.h"

namespace ttrace::measure {

std::optional<double> error_ratio(const TruthErrors& errors) {
  const double candidate = errors.candidate_error_norm;
  const double reference = errors.reference_error_norm;
  if (!std::isfinite(candidate) || !std::isfinite(reference)) return std::nullopt;
  if (reference > 0) return candidate / reference;
  if (candidate > 0) return std::numeric_limits<double>::infinity();
  return std::nullopt;
}

TruthErrors measure_truth(const Backend& backend, const TensorRef& truth,
                          const TensorRef& reference, const TensorRef& candidate) {
  BoxReader truth_tensor(truth.open(Replicas::kFirstOnly));
  BoxReader reference_tensor(reference.open(Replicas::kFirstOnly));
  BoxReader candidate_tensor(candidate.open(Replicas::kFirstOnly));
  TripleSums sums;
  const std::unique_ptr<Batch> batch = backend.new_batch();
  tensor::for_each_sub_box(
      tensor::whole(truth.view->shape), kReadElements, [&](const tensor::Box& box) {
        batch->add(TripleRequest{truth_tensor.read(box), reference_tensor.read(box),
                                 candidate_tensor.read(box), &sums});
      });
  batch->finish();
  TruthErrors errors;
  errors.candidate_error_norm = difference_norm(sums.of_candidate);
  errors.reference_error_norm = difference_norm(sums.of_reference);
  errors.truth_norm = reference_norm(sums.of_candidate);
  errors.elements = sums.elements;
  errors.left_out = sums.left_out;
  for (const BoxReader* read : {&truth_tensor, &reference_tensor, &candidate_tensor}) {
    errors.bytes_read += read->tensor().bytes_read();
  }
  return errors;
}

}  // namespace ttrace::measure
