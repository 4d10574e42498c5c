#include "measure/truth_errors.h"

#include <cmath>
#include <limits>

#include "measure/box_stats.h"
#include "measure/tensor_reader.h"

namespace ttrace::measure {
namespace {

// Sets to zero in all three what is not finite in any: it then adds nothing to any sum. Returns how
// many elements that are.
std::uint64_t leave_out_nonfinite(std::vector<double>& a, std::vector<double>& b,
                                  std::vector<double>& c) {
  std::uint64_t count = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (std::isfinite(a[i]) && std::isfinite(b[i]) && std::isfinite(c[i])) continue;
    a[i] = b[i] = c[i] = 0;
    ++count;
  }
  return count;
}

}  // namespace

std::optional<double> error_ratio(const TruthErrors& errors) {
  const double candidate = errors.candidate_error_norm;
  const double reference = errors.reference_error_norm;
  if (!std::isfinite(candidate) || !std::isfinite(reference)) return std::nullopt;
  if (reference > 0) return candidate / reference;
  if (candidate > 0) return std::numeric_limits<double>::infinity();
  return std::nullopt;
}

TruthErrors measure_truth(const TensorRef& truth, const TensorRef& reference,
                          const TensorRef& candidate) {
  const auto reader = [](const TensorRef& tensor) {
    return make_reader(*tensor.source, *tensor.view, Replicas::kFirstOnly);
  };
  const auto truth_tensor = reader(truth);
  const auto reference_tensor = reader(reference);
  const auto candidate_tensor = reader(candidate);
  TileStats of_candidate;
  TileStats of_reference;
  TruthErrors errors;
  std::vector<double> t;
  std::vector<double> r;
  std::vector<double> c;
  tensor::for_each_sub_box(tensor::whole(truth.view->shape), kBandElements,
                           [&](const tensor::Box& slab) {
                             for (auto* values : {&t, &r, &c}) values->resize(tensor::volume(slab));
                             truth_tensor->read(slab, t);
                             reference_tensor->read(slab, r);
                             candidate_tensor->read(slab, c);
                             const std::uint64_t left_out = leave_out_nonfinite(t, r, c);
                             errors.left_out += left_out;
                             errors.elements += t.size() - left_out;
                             of_candidate.merge(slab_stats(slab, t, c));
                             of_reference.merge(slab_stats(slab, t, r));
                           });
  errors.candidate_error_norm = difference_norm(of_candidate);
  errors.reference_error_norm = difference_norm(of_reference);
  errors.truth_norm = reference_norm(of_candidate);
  for (const auto* read : {&truth_tensor, &reference_tensor, &candidate_tensor}) {
    errors.bytes_read += (*read)->bytes_read();
  }
  return errors;
}

}  // namespace ttrace::measure
