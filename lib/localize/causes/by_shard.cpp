#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <set>
#include <span>

#include "localize/causes/trial.h"

namespace ttrace::localize {
namespace {

// A step that is a function of the singular values of a matrix M, as every orthogonalisation is,
// has the singular vectors of M: U·Mᵀ is symmetric. In float32 it is so to 1e-6, in bf16 to 0.03;
// of shards that were orthogonalised one by one each is, and all together are off by 0.1 to 0.3.
constexpr double kSymmetric = 0.05;
constexpr double kFewestTimesAsSkew = 3;
constexpr double kLeastSkew = 0.01;         // of the shards, that a whole is held against
constexpr std::uint64_t kShortestSide = 4;  // of a shard
constexpr std::uint64_t kLargestMatrix = std::uint64_t{1} << 24;
constexpr std::size_t kProbes = 8;

using Doubles = std::vector<double>;

// A rectangle of a matrix in row-major order. `across`: its columns are taken for rows.
struct Part {
  std::span<const double> values;
  std::uint64_t stride = 0;
  tensor::Box box;
  bool across = false;

  std::uint64_t rows() const { return box.extent[across ? 1 : 0]; }
  std::uint64_t columns() const { return box.extent[across ? 0 : 1]; }
  // Σ of all rows, times the signs.
  Doubles mixed(std::span<const double> signs) const {
    Doubles sums(columns());
    for (std::uint64_t i = 0; i < box.extent[0]; ++i) {
      const double* const row = &values[(box.origin[0] + i) * stride + box.origin[1]];
      for (std::uint64_t j = 0; j < box.extent[1]; ++j) {
        if (across) {
          sums[i] += signs[j] * row[j];
        } else {
          sums[j] += signs[i] * row[j];
        }
      }
    }
    return sums;
  }
};

double dot(const Doubles& a, const Doubles& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

// What probes say of A = U·(G + r·B)ᵀ as a function of r: xᵀ(A - Aᵀ)y and xᵀ(A + Aᵀ)y for random
// signs x, y, whose mean squares are the squared norms.
struct Probed {
  Doubles skew_of_gradient, skew_of_state;
  Doubles even_of_gradient, even_of_state;

  // The ratio r that makes A most symmetric; 0 without a state.
  double best_ratio() const {
    const double squares = dot(skew_of_state, skew_of_state);
    return squares > 0 ? -dot(skew_of_gradient, skew_of_state) / squares : 0;
  }
  // ‖A - Aᵀ‖ / ‖A + Aᵀ‖; infinite for zeros.
  double skewness(double ratio) const {
    double skew = 0;
    double even = 0;
    for (std::size_t i = 0; i < skew_of_gradient.size(); ++i) {
      const double one = skew_of_gradient[i] + ratio * skew_of_state[i];
      const double other = even_of_gradient[i] + ratio * even_of_state[i];
      skew += one * one;
      even += other * other;
    }
    return even > 0 ? std::sqrt(skew / even) : std::numeric_limits<double>::infinity();
  }
};

// A step and what it was made from, of one run, as dense matrices. The state is empty if there is
// none.
struct Made {
  Doubles step, gradient, state;
};

Probed probed(const Made& made, std::uint64_t stride, const tensor::Box& box, bool across) {
  const Part step{made.step, stride, box, across};
  const Part gradient{made.gradient, stride, box, across};
  const Part state{made.state, stride, box, across};
  std::mt19937_64 bits(box.origin[across ? 1 : 0] + 1);
  Doubles x(step.rows());
  Doubles y(step.rows());
  Probed out;
  for (std::size_t probe = 0; probe < kProbes; ++probe) {
    for (double& sign : x) sign = (bits() & 1) != 0 ? 1.0 : -1.0;
    for (double& sign : y) sign = (bits() & 1) != 0 ? 1.0 : -1.0;
    const Doubles step_x = step.mixed(x);
    const Doubles step_y = step.mixed(y);
    const auto add = [&](const Part& other, Doubles& skew, Doubles& even) {
      const double one = dot(step_x, other.mixed(y));
      const double two = dot(step_y, other.mixed(x));
      skew.push_back(one - two);
      even.push_back(one + two);
    };
    add(gradient, out.skew_of_gradient, out.even_of_gradient);
    if (made.state.empty()) {
      out.skew_of_state.push_back(0);
      out.even_of_state.push_back(0);
    } else {
      add(state, out.skew_of_state, out.even_of_state);
    }
  }
  return out;
}

Doubles values_of(const measure::TensorRef& tensor, const tensor::Box& whole) {
  Doubles values(tensor::volume(whole));
  tensor.open(measure::Replicas::kFirstOnly)->read(whole, values);
  return values;
}

// The rectangles in which ranks hold the gradient; empty if they are no rectangles, or too small.
std::vector<tensor::Box> rectangles_of(const comparison::TensorComparison& gradient) {
  std::vector<tensor::Box> shards;
  for (const measure::RankBoxes& part : comparison::parts_of(gradient)) {
    if (part.boxes.size() != 1) return {};
    const tensor::Box& box = part.boxes.front();
    if (std::min(box.extent[0], box.extent[1]) < kShortestSide) return {};
    shards.push_back(box);
  }
  return shards.size() < 2 ? std::vector<tensor::Box>{} : shards;
}

// The axis that the gradient is cut over; empty if it is not one.
std::string axis_of(const comparison::TensorComparison& gradient) {
  std::set<std::string> axes;
  for (const trace::TensorEntry* entry : layout::stored_in(*gradient.candidate)) {
    for (const auto& [axis, placement] : entry->placements) {
      if (trace::cut_dimension(placement)) axes.insert(axis);
    }
  }
  return axes.size() == 1 ? *axes.begin() : "";
}

// A state of the parameter's shape, such as its momentum; null without one.
const comparison::TensorComparison* state_of(const Case& the_case) {
  const trace::TensorKey& key = the_case.result->key;
  for (const auto* record :
       the_case.related->alike(trace::Kind::kOptimizerState, the_case.result->shape)) {
    if (record->key.step != key.step || trace::owner_of(record->key.name) != key.name) continue;
    if (record->candidate != nullptr && record->reference != nullptr) return record;
  }
  return nullptr;
}

struct Records {
  const comparison::TensorComparison& before;
  const comparison::TensorComparison& gradient;
  const comparison::TensorComparison* state;
};

Made made_of(const Case& the_case, const Records& records, bool of_reference) {
  const tensor::Box whole = tensor::whole(the_case.result->shape);
  const auto read = [&](const comparison::TensorComparison& record) {
    return values_of(
        of_reference ? the_case.related->reference(record) : the_case.related->candidate(record),
        whole);
  };
  Made made{values_of(of_reference ? the_case.reference : the_case.candidate, whole),
            read(records.gradient),
            {}};
  if (records.state != nullptr) made.state = read(*records.state);
  const Doubles before = read(records.before);
  for (std::size_t i = 0; i < before.size(); ++i) made.step[i] -= before[i];
  return made;
}

}  // namespace

std::vector<Cause> find_orthogonal_by_shard(const Case& the_case) {
  if (the_case.related == nullptr || the_case.result == nullptr || the_case.conflict) return {};
  const tensor::Shape& shape = the_case.result->shape;
  if (the_case.result->key.kind != trace::Kind::kParamAfterStep || shape.size() != 2) return {};
  const auto elements = tensor::element_count(shape);
  if (!elements || *elements > kLargestMatrix || !the_case.may_read) return {};
  const auto* const before = record_of(the_case, trace::Kind::kParam);
  const auto* const gradient = record_of(the_case, trace::Kind::kMainGrad);
  if (before == nullptr || gradient == nullptr) return {};
  const std::vector<tensor::Box> shards = rectangles_of(*gradient);
  if (shards.empty()) return {};
  const Records records{*before, *gradient, state_of(the_case)};
  const Made reference = made_of(the_case, records, true);
  const Made candidate = made_of(the_case, records, false);
  const tensor::Box whole = tensor::whole(shape);
  // Of rows that are cut, the products of rows of one shard with those of another tell.
  const bool across = shards.front().extent[0] == shape[0];
  const Probed expected = probed(reference, shape[1], whole, across);
  const double ratio = expected.best_ratio();
  double widest = expected.skewness(ratio);
  if (!(widest <= kSymmetric)) return {};
  for (const tensor::Box& shard : shards) {
    const double skew = probed(candidate, shape[1], shard, across).skewness(ratio);
    if (!(skew <= kSymmetric)) return {};
    widest = std::max(widest, skew);
  }
  const double together = probed(candidate, shape[1], whole, across).skewness(ratio);
  if (!std::isfinite(together) ||
      !(together >= kFewestTimesAsSkew * std::max(widest, kLeastSkew))) {
    return {};
  }
  return {cause_of(
      the_case, "orthogonal_by_shard", axis_of(*gradient),
      {"each of its {shards} shards has the singular vectors of its own part of the "
       "gradient, where {reference}'s step has those of the whole (off by {widest}, "
       "and as a whole by {together})",
       {{"shards", std::uint64_t{shards.size()}}, {"widest", widest}, {"together", together}}},
      relative_to_reference(the_case, difference_of(the_case)))};
}

}  // namespace ttrace::localize
