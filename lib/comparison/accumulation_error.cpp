#include "comparison/accumulation_error.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <utility>

#include "base/error.h"
#include "judge/tolerance.h"
#include "measure/sections.h"
#include "tensor/codec.h"

namespace ttrace::comparison {
namespace {

using trace::Kind;
using trace::TensorKey;

tensor::DType precision_of(const layout::View& view) {
  const tensor::DType computed = tensor::kept_in(view.computed_in.value_or(view.dtype));
  return tensor::epsilon(computed) > tensor::epsilon(view.dtype) ? computed : view.dtype;
}

bool is_vector(const layout::View* view) {
  return view != nullptr && view->shape.size() == 1 && tensor::is_floating(view->dtype);
}

// The default of PyTorch, the usual one of large models, and a negligible one. RMSNorm's own
// default is the precision's epsilon.
constexpr std::array kNormEpsilons{1e-5, 1e-6, 1e-12};

double distance(const std::vector<double>& a, const std::vector<double>& b) {
  double square = 0;
  for (std::size_t j = 0; j < a.size(); ++j) square += (a[j] - b[j]) * (a[j] - b[j]);
  return std::sqrt(square);
}

// Calls `visit` with every value and its index along `dim`, in row-major order within boxes. Throws
// an input error if a shard cannot be read.
template <typename Visit>
void for_each_value(const measure::TensorRef& tensor, std::size_t dim, Visit visit) {
  const tensor::Shape& shape = tensor.view->shape;
  const auto reader = tensor.open(measure::Replicas::kFirstOnly);
  std::vector<double> values;
  tensor::for_each_sub_box(tensor::whole(shape), measure::kReadElements,
                           [&](const tensor::Box& box) {
                             values.resize(tensor::volume(box));
                             reader->read(box, values);
                             std::uint64_t inner = 1;
                             for (std::size_t d = dim + 1; d < shape.size(); ++d)
                               inner *= box.extent[d];
                             for (std::size_t i = 0; i < values.size(); ++i) {
                               visit(values[i], box.origin[dim] + i / inner % box.extent[dim]);
                             }
                           });
}

// What one rounding of a sum may lose whose terms cancel, in an accumulator of single precision or
// wider: ε/2 of Σ|g| over all dimensions but `dim`. Zeros for a narrower one, whose sums lose so
// much more that faults would hide. Throws an input error if a shard cannot be read.
std::vector<double> lost_by_cancelling(const measure::TensorRef& gradient, std::size_t dim,
                                       tensor::DType precision) {
  std::vector<double> lost(gradient.view->shape[dim], 0);
  const double epsilon = tensor::epsilon(precision);
  if (epsilon > tensor::epsilon(tensor::DType::kFloat32)) return lost;
  for_each_value(gradient, dim, [&](double value, std::uint64_t index) {
    lost[index] += epsilon / 2 * std::abs(value);
  });
  return lost;
}

// What two runs may be apart that add up the same terms in other orders: each rounds once a term
// and once where it stores the sum, by ε/2 of √Σg² in root mean square, however little is left of
// the terms. Zero for accumulators narrower than single precision, as above.
double lost_by_adding(double terms, double squares, tensor::DType precision) {
  const double epsilon = tensor::epsilon(precision);
  if (terms < 2 || epsilon > tensor::epsilon(tensor::DType::kFloat32)) return 0;
  return epsilon / 2 * std::sqrt(2 * (terms + 1) * squares);
}

using VisitBox = std::function<void(const tensor::Box&)>;

// Visits boxes of the rows [first, last) of `box`, whose dimensions before `dim` have one index.
void visit_rows(tensor::Box box, std::size_t dim, std::uint64_t first, std::uint64_t last,
                const VisitBox& visit) {
  const std::uint64_t rows = tensor::volume(box) / box.extent.back();
  if (first == 0 && last == rows) return visit(box);
  const std::uint64_t inner = rows / box.extent[dim];  // rows of one index
  for (std::uint64_t i = first / inner; i * inner < last; ++i) {
    tensor::Box part = box;
    part.origin[dim] = i;
    part.extent[dim] = 1;
    const std::uint64_t start = i * inner;
    visit_rows(std::move(part), dim + 1, std::max(first, start) - start,
               std::min(last - start, inner), visit);
  }
}

}  // namespace

std::vector<measure::ColumnSums> sum_rows(const measure::Backend& backend,
                                          const measure::TensorRef& gradient,
                                          const measure::TensorRef* input, tensor::DType precision,
                                          std::uint64_t threads) {
  const tensor::Shape& shape = gradient.view->shape;
  if (shape.empty() || (input != nullptr && input->view->shape != shape)) {
    throw base::internal_error("no rows to add up in ", tensor::to_string(shape));
  }
  std::vector<double> epsilons(kNormEpsilons.begin(), kNormEpsilons.end());
  epsilons.push_back(tensor::epsilon(precision));
  const std::uint64_t length = shape.back();
  const std::vector<double> zeros(length, 0);
  std::vector<measure::ColumnSums> sums(input != nullptr ? 1 + 2 * epsilons.size() : 1,
                                        {zeros, zeros});
  const tensor::Box all = tensor::whole(shape);
  if (tensor::volume(all) == 0) return sums;
  measure::BoxReader gradients(gradient.open(measure::Replicas::kFirstOnly));
  std::optional<measure::BoxReader> inputs;
  if (input != nullptr) inputs.emplace(input->open(measure::Replicas::kFirstOnly));
  const std::unique_ptr<measure::Batch> batch = backend.new_batch();
  const std::uint64_t rows = tensor::volume(all) / length;
  const std::uint64_t of_thread = (rows + threads - 1) / threads;
  std::vector<std::vector<measure::ColumnSums>> parts((rows + of_thread - 1) / of_thread, sums);
  for (std::uint64_t part = 0; part < parts.size(); ++part) {
    const auto add = [&](const tensor::Box& box) {
      measure::RowsRequest request{gradients.read(box), std::nullopt, length,
                                   precision,           epsilons,     parts[part].data()};
      if (inputs) request.input = inputs->read(box);
      batch->add(request);
    };
    // Boxes of at least a row consist of whole rows.
    visit_rows(all, 0, part * of_thread, std::min((part + 1) * of_thread, rows),
               [&](const tensor::Box& box) {
                 tensor::for_each_sub_box(box, std::max(length, measure::kReadElements), add);
               });
  }
  batch->finish();
  for (const std::vector<measure::ColumnSums>& part : parts) {
    for (std::size_t k = 0; k < sums.size(); ++k) {
      for (std::size_t j = 0; j < length; ++j) {
        sums[k].exact[j] += part[k].exact[j];
        sums[k].stepwise[j] += part[k].stepwise[j];
      }
    }
  }
  return sums;
}

measure::ColumnSums sum_channels(const measure::TensorRef& gradient, tensor::DType precision) {
  const tensor::Shape& shape = gradient.view->shape;
  if (shape.size() < 3) throw base::internal_error("no images in ", tensor::to_string(shape));
  const std::vector<double> zeros(shape[1], 0);
  measure::ColumnSums sums{zeros, zeros};
  for_each_value(gradient, 1, [&](double value, std::uint64_t channel) {
    sums.exact[channel] += value;
    sums.stepwise[channel] = tensor::round_to(precision, sums.stepwise[channel] + value);
  });
  return sums;
}

std::optional<std::vector<double>> accumulated_rounding(
    const std::vector<double>& recorded, const std::vector<measure::ColumnSums>& sums,
    const std::vector<double>& cancelled) {
  const measure::ColumnSums* nearest = nullptr;
  double least = std::numeric_limits<double>::infinity();
  for (const measure::ColumnSums& one : sums) {
    const double here = distance(recorded, one.exact);
    if (here < least) {
      least = here;
      nearest = &one;
    }
  }
  if (nearest == nullptr) return std::nullopt;  // even if nothing is finite
  std::vector<double> rounding(recorded.size(), 0);
  if (nearest == &sums.front() && !cancelled.empty()) rounding = cancelled;
  const double usual = std::max(kMostOfStepwise * distance(nearest->stepwise, nearest->exact),
                                distance(rounding, std::vector<double>(rounding.size(), 0)));
  if (!(least <= usual)) return std::nullopt;
  for (std::size_t j = 0; j < recorded.size(); ++j) {
    rounding[j] = std::max(rounding[j], std::abs(recorded[j] - nearest->exact[j]));
  }
  return rounding;
}

AccumulationError::AccumulationError(const trace::Source& reference,
                                     const std::vector<TensorComparison>& results,
                                     const measure::Backend& backend)
    : reference_(reference), results_(results), backend_(backend) {}

std::vector<double> AccumulationError::own_rounding(const TensorKey& key) const {
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = known_.find(key); found != known_.end()) return found->second;
    if (index_.empty()) {  // does not change afterwards, so that reads need no lock
      for (std::size_t i = 0; i < results_.size(); ++i) {
        if (results_[i].reference != nullptr) index_.emplace(results_[i].key, i);
      }
    }
  }
  std::vector<double> rounding = compute(key);
  const std::lock_guard lock(mutex_);
  return known_.emplace(key, std::move(rounding)).first->second;
}

std::vector<double> AccumulationError::compute(const TensorKey& key) const {
  try {
    if (!is_vector(find(key))) return {};
    if (key.kind == Kind::kParamGrad) return of_raw(key).value_or(std::vector<double>{});
    if (key.kind == Kind::kMainGrad) return of_main(key);
  } catch (const base::InputError&) {
    // If a shard cannot be read, the rounding is not known.
  }
  return {};
}

std::optional<std::vector<double>> AccumulationError::of_raw(const TensorKey& key) const {
  const layout::View* view = find(key);
  const std::size_t dot = key.name.rfind('.');
  if (!is_vector(view) || dot == std::string::npos) return std::nullopt;
  const std::string module = key.name.substr(0, dot);
  const auto gradient = value(key, Kind::kGradOutput, module);
  if (!gradient) return std::nullopt;
  const tensor::Shape& shape = gradient->view->shape;
  if (shape.back() != view->shape[0]) {
    if (shape.size() < 3 || shape[1] != view->shape[0]) return std::nullopt;
    return accumulated_rounding(read(key), {sum_channels(*gradient, precision_of(*view))},
                                lost_by_cancelling(*gradient, 1, precision_of(*view)));
  }
  auto input = value(key, Kind::kInput, module);
  if (input && input->view->shape != gradient->view->shape) input.reset();
  return accumulated_rounding(
      read(key), sum_rows(backend_, *gradient, input ? &*input : nullptr, precision_of(*view)),
      lost_by_cancelling(*gradient, shape.size() - 1, precision_of(*view)));
}

std::vector<double> AccumulationError::of_main(const TensorKey& key) const {
  const std::vector<double> main = read(key);
  std::vector<double> raw(main.size(), 0);
  std::vector<double> squares(main.size(), 0);
  std::vector<double> lost(main.size(), 0);
  double epsilon = 0;
  double terms = 0;
  TensorKey first = key;
  first.kind = Kind::kParamGrad;
  for (const auto& [other, i] : index_) {
    if (other.kind != Kind::kParamGrad || other.step != key.step || other.name != key.name) {
      continue;
    }
    const std::vector<double> values = read(other);
    if (values.size() != main.size()) return {};
    const auto rounding = of_raw(other);
    ++terms;
    for (std::size_t j = 0; j < main.size(); ++j) {
      raw[j] += values[j];
      squares[j] += values[j] * values[j];
      if (rounding) lost[j] += (*rounding)[j];
    }
    epsilon = std::max(epsilon, tensor::epsilon(precision_of(*results_[i].reference)));
  }
  double product = 0;
  double square = 0;
  for (std::size_t j = 0; j < main.size(); ++j) {
    product += main[j] * raw[j];
    square += raw[j] * raw[j];
  }
  if (!(square > 0)) return {};
  const double scale = product / square;  // clipped, averaged, or without the loss's scale
  double apart = 0;
  for (std::size_t j = 0; j < main.size(); ++j) {
    const double rest = main[j] - scale * raw[j];
    apart += rest * rest;
    lost[j] =
        std::abs(scale) * (lost[j] + lost_by_adding(terms, squares[j], precision_of(*find(key))));
  }
  if (!(std::sqrt(apart) <= epsilon * std::abs(scale) * std::sqrt(square))) return {};
  return lost;
}

const layout::View* AccumulationError::find(const TensorKey& key) const {
  const auto found = index_.find(key);
  return found == index_.end() ? nullptr : results_[found->second].reference.get();
}

// Returns the tensor of the only call in its micro-batch, or nothing.
std::optional<measure::TensorRef> AccumulationError::value(const TensorKey& like, Kind kind,
                                                           const std::string& name) const {
  TensorKey key = like;
  key.kind = kind;
  key.name = name;
  key.copy = 0;
  key.call = 1;
  if (find(key) != nullptr) return std::nullopt;
  key.call = 0;
  const auto found = index_.find(key);
  if (found == index_.end()) return std::nullopt;
  const layout::ViewPtr& view = results_[found->second].reference;
  if (view->shape.empty() || !tensor::is_floating(view->dtype)) return std::nullopt;
  return measure::TensorRef(&reference_, view);
}

std::vector<double> AccumulationError::read(const TensorKey& key) const {
  const measure::TensorRef tensor(&reference_, results_[index_.at(key)].reference);
  const tensor::Box all = tensor::whole(tensor.view->shape);
  std::vector<double> values(tensor::volume(all));
  tensor.open(measure::Replicas::kFirstOnly)->read(all, values);
  return values;
}

}  // namespace ttrace::comparison
