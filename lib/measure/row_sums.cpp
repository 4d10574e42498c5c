#include "measure/row_sums.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <memory>

#include "base/error.h"
#include "measure/box_reader.h"
#include "measure/sections.h"
#include "tensor/codec.h"

namespace ttrace::measure {
namespace {

// The defaults of PyTorch, of the large models' configurations, and none to speak of; RMSNorm's own
// default is the precision's epsilon.
constexpr std::array kNormEpsilons{1e-5, 1e-6, 1e-12};
constexpr double kMostOfStepwise = 2;

double distance(const std::vector<double>& a, const std::vector<double>& b) {
  double square = 0;
  for (std::size_t j = 0; j < a.size(); ++j) square += (a[j] - b[j]) * (a[j] - b[j]);
  return std::sqrt(square);
}

}  // namespace

std::vector<RowSums> sum_rows(const Backend& backend, const TensorRef& gradient,
                              const TensorRef* input, tensor::DType precision) {
  const tensor::Shape& shape = gradient.view->shape;
  if (shape.empty() || (input != nullptr && input->view->shape != shape)) {
    throw base::internal_error("no rows to add up in ", tensor::to_string(shape));
  }
  std::vector<double> epsilons(kNormEpsilons.begin(), kNormEpsilons.end());
  epsilons.push_back(tensor::epsilon(precision));
  const std::uint64_t length = shape.back();
  const std::vector<double> zeros(length, 0);
  std::vector<RowSums> sums(input != nullptr ? 1 + 2 * epsilons.size() : 1, {zeros, zeros});
  if (length == 0) return sums;
  BoxReader gradients(gradient.open(Replicas::kFirstOnly));
  std::optional<BoxReader> inputs;
  if (input != nullptr) inputs.emplace(input->open(Replicas::kFirstOnly));
  const std::unique_ptr<Batch> batch = backend.new_batch();
  // Boxes of at least a row are made of whole rows.
  tensor::for_each_sub_box(
      tensor::whole(shape), std::max(length, kReadElements), [&](const tensor::Box& rows) {
        RowsRequest request{gradients.read(rows), std::nullopt, length, precision, epsilons,
                            sums.data()};
        if (inputs) request.input = inputs->read(rows);
        batch->add(request);
      });
  batch->finish();
  return sums;
}

std::optional<std::vector<double>> accumulated_rounding(const std::vector<double>& recorded,
                                                        const std::vector<RowSums>& sums) {
  const RowSums* nearest = nullptr;
  double least = std::numeric_limits<double>::infinity();
  for (const RowSums& one : sums) {
    const double here = distance(recorded, one.exact);
    if (here < least) {
      least = here;
      nearest = &one;
    }
  }
  if (nearest == nullptr) return std::nullopt;  // also where nothing is finite
  if (!(least <= kMostOfStepwise * distance(nearest->stepwise, nearest->exact))) {
    return std::nullopt;
  }
  std::vector<double> rounding(recorded.size());
  for (std::size_t j = 0; j < recorded.size(); ++j) rounding[j] = recorded[j] - nearest->exact[j];
  return rounding;
}

}  // namespace ttrace::measure
