#include "measure/row_sums.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <span>

#include "base/error.h"
#include "tensor/codec.h"

namespace ttrace::measure {
namespace {

// The defaults of PyTorch, of the large models' configurations, and none to speak of; RMSNorm's own
// default is the precision's epsilon.
constexpr std::array kNormEpsilons{1e-5, 1e-6, 1e-12};
constexpr double kMostOfStepwise = 2;

struct Row {
  double mean = 0;
  double variance = 0;
  double mean_square = 0;
};

Row row_of(std::span<const double> x) {
  const auto n = static_cast<double>(x.size());
  Row row;
  for (const double v : x) row.mean += v / n;
  for (const double v : x) {
    row.variance += (v - row.mean) * (v - row.mean) / n;
    row.mean_square += v * v / n;
  }
  return row;
}

class Sums {
 public:
  Sums(std::uint64_t length, bool normalised, tensor::DType precision) : precision_(precision) {
    std::vector<double> epsilons(kNormEpsilons.begin(), kNormEpsilons.end());
    epsilons.push_back(tensor::epsilon(precision));
    epsilons_ = std::move(epsilons);
    const std::vector<double> zeros(length, 0);
    sums_.assign(normalised ? 1 + 2 * epsilons_.size() : 1, {zeros, zeros});
  }

  void add(std::span<const double> g, std::span<const double> x) {
    for (std::size_t j = 0; j < g.size(); ++j) add(sums_[0], j, g[j]);
    if (sums_.size() == 1) return;
    const Row row = row_of(x);
    for (std::size_t k = 0; k < epsilons_.size(); ++k) {
      const double layer = 1 / std::sqrt(row.variance + epsilons_[k]);
      const double rms = 1 / std::sqrt(row.mean_square + epsilons_[k]);
      for (std::size_t j = 0; j < g.size(); ++j) {
        add(sums_[1 + k], j, g[j] * (x[j] - row.mean) * layer);
        add(sums_[1 + epsilons_.size() + k], j, g[j] * x[j] * rms);
      }
    }
  }

  std::vector<RowSums> done() { return std::move(sums_); }

 private:
  void add(RowSums& sums, std::size_t j, double term) const {
    sums.exact[j] += term;
    sums.stepwise[j] = tensor::round_to(precision_, sums.stepwise[j] + term);
  }

  tensor::DType precision_;
  std::vector<double> epsilons_;
  std::vector<RowSums> sums_;
};

double distance(const std::vector<double>& a, const std::vector<double>& b) {
  double square = 0;
  for (std::size_t j = 0; j < a.size(); ++j) square += (a[j] - b[j]) * (a[j] - b[j]);
  return std::sqrt(square);
}

}  // namespace

std::vector<RowSums> sum_rows(const TensorRef& gradient, const TensorRef* input,
                              tensor::DType precision) {
  const tensor::Shape& shape = gradient.view->shape;
  if (shape.empty() || (input != nullptr && input->view->shape != shape)) {
    throw base::internal_error("no rows to add up in ", tensor::to_string(shape));
  }
  const std::uint64_t length = shape.back();
  Sums sums(length, input != nullptr, precision);
  if (length == 0) return sums.done();
  const auto gradients = gradient.open(Replicas::kFirstOnly);
  const auto inputs = input != nullptr ? input->open(Replicas::kFirstOnly) : nullptr;
  std::vector<double> g;
  std::vector<double> x;
  // Slabs of at least a row are made of whole rows.
  tensor::for_each_sub_box(
      tensor::whole(shape), std::max(length, kBandElements), [&](const tensor::Box& slab) {
        g.resize(tensor::volume(slab));
        gradients->read(slab, g);
        if (inputs) {
          x.resize(g.size());
          inputs->read(slab, x);
        }
        for (std::size_t at = 0; at < g.size(); at += length) {
          sums.add(
              std::span(g).subspan(at, length),
              inputs ? std::span<const double>(x).subspan(at, length) : std::span<const double>());
        }
      });
  return sums.done();
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
