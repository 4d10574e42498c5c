#include "measure/step_difference.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "measure/sections.h"
#include "tensor/dtype.h"

namespace ttrace::measure {
namespace {

constexpr std::uint64_t kFewestElements = 32;  // of a part, whose factor says something
constexpr double kSmallPart = 0.01;            // of the whole difference

std::vector<RankBoxes> whole_or(const std::vector<RankBoxes>& parts, const tensor::Shape& shape) {
  const tensor::Box whole = tensor::whole(shape);
  std::uint64_t elements = 0;
  for (const RankBoxes& part : parts) {
    for (const tensor::Box& box : part.boxes) elements += tensor::volume(box);
  }
  if (elements == tensor::volume(whole)) return parts;
  return {RankBoxes{{whole}, {}, {}}};
}

// The readers of one side, and what they read of a box.
class Side {
 public:
  explicit Side(const UpdatedParameter& parameter) {
    readers_.push_back(parameter.before.open(Replicas::kFirstOnly));
    readers_.push_back(parameter.after.open(Replicas::kFirstOnly));
    if (parameter.gradient) readers_.push_back(parameter.gradient->open(Replicas::kFirstOnly));
    values_.resize(readers_.size());
  }

  void read(const tensor::Box& box) {
    for (std::size_t i = 0; i < readers_.size(); ++i) {
      values_[i].resize(tensor::volume(box));
      readers_[i]->read(box, values_[i]);
    }
  }

  bool has_gradient() const { return values_.size() > 2; }
  double before(std::size_t i) const { return values_[0][i]; }
  double after(std::size_t i) const { return values_[1][i]; }
  double step(std::size_t i) const { return values_[1][i] - values_[0][i]; }
  double gradient(std::size_t i) const { return values_[2][i]; }

 private:
  std::vector<std::unique_ptr<TensorReader>> readers_;
  std::vector<std::vector<double>> values_;
};

double epsilon_of(const UpdatedParameter& parameter) {
  const tensor::DType dtype = parameter.after.view->dtype;
  return tensor::is_floating(dtype) ? tensor::epsilon(dtype) : 0;
}

}  // namespace

void StepSums::add(double of_reference, double of_candidate) {
  const double d = of_candidate - of_reference;
  ++elements;
  rr += of_reference * of_reference;
  cc += of_candidate * of_candidate;
  dd += d * d;
  rd += of_reference * d;
}

double StepSums::left_by_factor() const { return rr > 0 ? std::max(0.0, dd - rd * rd / rr) : dd; }

double StepDifference::left_by_parameter() const {
  if (!(parameter > 0)) return total.dd;
  return std::max(0.0, total.dd - along_parameter * along_parameter / parameter);
}

std::optional<double> StepDifference::left_by_parts() const {
  double left = 0;
  for (const StepSums& part : parts) {
    if (part.dd > kSmallPart * total.dd && part.elements < kFewestElements) return std::nullopt;
    left += part.left_by_factor();
  }
  return left;
}

StepDifference difference_of_steps(const UpdatedParameter& reference,
                                   const UpdatedParameter& candidate,
                                   const std::vector<RankBoxes>& parts) {
  Side r(reference);
  Side c(candidate);
  const double ulp = std::max(epsilon_of(reference), epsilon_of(candidate));
  StepDifference found;
  const auto add = [&](StepSums& part, const tensor::Box& box) {
    r.read(box);
    c.read(box);
    const std::size_t count = tensor::volume(box);
    for (std::size_t i = 0; i < count; ++i) {
      const double d = c.step(i) - r.step(i);
      part.add(r.step(i), c.step(i));
      found.total.add(r.step(i), c.step(i));
      found.along_parameter += d * r.before(i);
      found.parameter += r.before(i) * r.before(i);
      if (!r.has_gradient() || !c.has_gradient()) continue;
      const double off = std::abs(c.gradient(i) - r.gradient(i));
      const double stored = ulp * std::max(std::abs(r.after(i)), std::abs(c.after(i)));
      const bool agree = r.gradient(i) != 0 && off <= kSameGradient * std::abs(r.gradient(i));
      if (agree && std::abs(d) > stored) found.unexplained += d * d;
    }
  };
  for (const RankBoxes& one : whole_or(parts, reference.after.view->shape)) {
    StepSums& part = found.parts.emplace_back();
    for (const tensor::Box& whole : one.boxes) {
      tensor::for_each_sub_box(whole, kReadElements,
                               [&](const tensor::Box& box) { add(part, box); });
    }
  }
  return found;
}

}  // namespace ttrace::measure
