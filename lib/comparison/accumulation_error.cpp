#include "comparison/accumulation_error.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "judge/tolerance.h"
#include "measure/row_sums.h"

namespace ttrace::comparison {
namespace {

using trace::Kind;
using trace::TensorKey;

tensor::DType precision_of(const layout::View& view) {
  const tensor::DType computed = view.computed_in.value_or(view.dtype);
  return tensor::epsilon(computed) > tensor::epsilon(view.dtype) ? computed : view.dtype;
}

bool is_vector(const layout::View* view) {
  return view != nullptr && view->shape.size() == 1 && tensor::is_floating(view->dtype);
}

}  // namespace

AccumulationError::AccumulationError(const trace::Source& reference,
                                     const std::vector<TensorComparison>& results,
                                     const measure::Backend& backend)
    : reference_(reference), results_(results), backend_(backend) {}

std::vector<double> AccumulationError::own_rounding(const TensorKey& key) const {
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = known_.find(key); found != known_.end()) return found->second;
    if (index_.empty()) {  // never changed again, so that it may be read without the lock
      for (std::size_t i = 0; i < results_.size(); ++i) {
        if (results_[i].reference != nullptr) index_.emplace(results_[i].key, i);
      }
    }
  }
  std::vector<double> rounding = made(key);
  const std::lock_guard lock(mutex_);
  return known_.emplace(key, std::move(rounding)).first->second;
}

std::vector<double> AccumulationError::made(const TensorKey& key) const {
  try {
    if (!is_vector(find(key))) return {};
    if (key.kind == Kind::kParamGrad) return of_raw(key).value_or(std::vector<double>{});
    if (key.kind == Kind::kMainGrad) return of_main(key);
  } catch (const base::InputError&) {
    // A shard that cannot be read tells nothing.
  }
  return {};
}

std::optional<std::vector<double>> AccumulationError::of_raw(const TensorKey& key) const {
  const layout::View* view = find(key);
  const std::size_t dot = key.name.rfind('.');
  if (!is_vector(view) || dot == std::string::npos) return std::nullopt;
  const std::string module = key.name.substr(0, dot);
  const auto gradient = value(key, Kind::kGradOutput, module);
  if (!gradient || gradient->view->shape.back() != view->shape[0]) return std::nullopt;
  auto input = value(key, Kind::kInput, module);
  if (input && input->view->shape != gradient->view->shape) input.reset();
  return measure::accumulated_rounding(
      read(key),
      measure::sum_rows(backend_, *gradient, input ? &*input : nullptr, precision_of(*view)));
}

std::vector<double> AccumulationError::of_main(const TensorKey& key) const {
  const std::vector<double> main = read(key);
  std::vector<double> raw(main.size(), 0);
  std::vector<double> lost(main.size(), 0);
  double epsilon = 0;
  TensorKey first = key;
  first.kind = Kind::kParamGrad;
  for (const auto& [other, i] : index_) {
    if (other.kind != Kind::kParamGrad || other.step != key.step || other.name != key.name)
      continue;
    const auto rounding = of_raw(other);
    if (!rounding || rounding->size() != main.size()) return {};
    const std::vector<double> values = read(other);
    for (std::size_t j = 0; j < main.size(); ++j) {
      raw[j] += values[j];
      lost[j] += (*rounding)[j];
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
    apart += std::pow(main[j] - scale * raw[j], 2);
    lost[j] *= scale;
  }
  if (!(std::sqrt(apart) <= epsilon * std::abs(scale) * std::sqrt(square))) return {};
  return lost;
}

const layout::View* AccumulationError::find(const TensorKey& key) const {
  const auto found = index_.find(key);
  return found == index_.end() ? nullptr : results_[found->second].reference.get();
}

// Of the only call in its micro-batch, or nothing.
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
