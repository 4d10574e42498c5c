#include "localize/causes/trial.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "base/functions.h"
#include "base/text.h"
#include "measure/sections.h"

namespace ttrace::localize {
namespace {

constexpr std::uint64_t kSampleElements = std::uint64_t{1} << 14;
constexpr double kMostByChance = 0.05;  // probability that a hypothesis fits by accident

double squared(const Case& the_case, const tensor::Box& box, measure::TensorReader& a,
               measure::TensorReader& b, const tensor::Box& of_b) {
  double sum = 0;
  if (the_case.exact) {
    std::vector<std::int64_t> x(tensor::volume(box));
    std::vector<std::int64_t> y(x.size());
    a.read_integers(box, x);
    b.read_integers(of_b, y);
    for (std::size_t i = 0; i < x.size(); ++i) sum += x[i] == y[i] ? 0 : 1;
    return sum;
  }
  std::vector<double> x(tensor::volume(box));
  std::vector<double> y(x.size());
  a.read(box, x);
  b.read(of_b, y);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double d = x[i] - y[i];
    // Both infinite, or both NaN, are equal.
    if (std::isfinite(x[i]) || std::isfinite(y[i])) sum += d * d;
  }
  return sum;
}

// A box of at most kSampleElements around `at`.
tensor::Box sample_around(const tensor::Shape& shape, const tensor::Shape& at) {
  tensor::Box box{tensor::Shape(shape.size(), 0), tensor::Shape(shape.size(), 1)};
  std::uint64_t room = kSampleElements;
  for (std::size_t d = shape.size(); d-- > 0;) {
    box.extent[d] = std::clamp<std::uint64_t>(room, 1, shape[d]);
    const std::uint64_t before = std::min(at[d], box.extent[d] / 2);
    box.origin[d] = std::min(at[d] - before, shape[d] - box.extent[d]);
    room /= box.extent[d];
  }
  return box;
}

struct Spread {
  std::uint64_t distinct = 0;
  double deviation = 0;  // root mean square, from the mean
};

template <typename Number>
Spread spread_in(const std::vector<Number>& values) {
  Spread spread;
  std::set<Number> distinct;
  // Differences from the first value, so that equal values have no deviation from rounding.
  double first = 0;
  double sum = 0;
  double squares = 0;
  std::uint64_t count = 0;
  for (const Number value : values) {
    const auto number = static_cast<double>(value);
    if (!std::isfinite(number)) continue;
    if (count++ == 0) first = number;
    if (distinct.size() < kMostDistinct) distinct.insert(value);
    sum += number - first;
    squares += (number - first) * (number - first);
  }
  spread.distinct = distinct.size();
  if (count == 0) return spread;
  const double mean = sum / static_cast<double>(count);
  spread.deviation = std::sqrt(std::max(0.0, squares / static_cast<double>(count) - mean * mean));
  return spread;
}

Spread spread_of(const Case& the_case, const measure::TensorRef& tensor) {
  const tensor::Shape& shape = tensor.view->shape;
  if (tensor::element_count(shape).value_or(0) == 0) return {};
  const auto& largest = the_case.measurement->total.largest;
  const tensor::Box box =
      sample_around(shape, largest ? largest->at : tensor::Shape(shape.size(), 0));
  const auto reader = tensor.open(measure::Replicas::kFirstOnly);
  if (the_case.exact) {
    std::vector<std::int64_t> values(tensor::volume(box));
    reader->read_integers(box, values);
    return spread_in(values);
  }
  std::vector<double> values(tensor::volume(box));
  reader->read(box, values);
  return spread_in(values);
}

std::string describe_other_side(const Case& the_case) {
  return the_case.is_expected_value ? base::render({"the expected value", {}}) : "the reference";
}

}  // namespace

const Profile* profile_of(const Case& the_case) {
  const auto elements = tensor::element_count(the_case.reference.view->shape);
  if (!elements || *elements > kMostElementsForCauses || *elements == 0) return nullptr;
  if (the_case.measurement->total.nonfinite_different > 0) return nullptr;
  if (the_case.profile == nullptr) {
    the_case.profile =
        std::make_shared<const Profile>(make_profile(the_case.reference, the_case.candidate));
  }
  return the_case.profile.get();
}

double difference_of(const Case& the_case) {
  const measure::TileStats& total = the_case.measurement->total;
  return the_case.exact ? std::sqrt(static_cast<double>(total.unequal))
                        : measure::difference_norm(total);
}

const Variety& variety_of(const Case& the_case) {
  if (the_case.variety == nullptr) {
    auto found = std::make_shared<Variety>();
    const Spread r = spread_of(the_case, the_case.reference);
    const Spread c = spread_of(the_case, the_case.candidate);
    const auto elements = static_cast<double>(the_case.measurement->total.elements);
    found->of_reference = r.distinct;
    found->of_candidate = c.distinct;
    found->reference_deviation = r.deviation * std::sqrt(elements);
    found->candidate_deviation = c.deviation * std::sqrt(elements);
    the_case.variety = std::move(found);
  }
  return *the_case.variety;
}

bool is_by_chance(const Case& the_case, double left, const Choice& choice) {
  const measure::TileStats& total = the_case.measurement->total;
  const Variety& variety = variety_of(the_case);
  const std::uint64_t distinct = choice.may_be_constant
                                     ? variety.of_reference
                                     : std::min(variety.of_reference, variety.of_candidate);
  const auto hypotheses = static_cast<double>(choice.hypotheses);
  if (the_case.exact) {
    if (choice.may_be_constant) return false;
    const auto values = static_cast<double>(std::max<std::uint64_t>(distinct, 1));
    return base::logarithm(hypotheses) -
               static_cast<double>(total.unequal) * base::logarithm(values) >
           base::logarithm(kMostByChance);
  }
  const std::uint64_t independent =
      distinct < kMostDistinct && !choice.may_be_constant ? distinct : total.finite;
  if (independent <= choice.fitted) return true;
  const double rounding = the_case.tolerance.epsilon * measure::reference_norm(total);
  const double share = std::max(left, rounding) / difference_of(the_case);
  if (!(share < 1)) return true;
  if (share == 0) return false;
  const auto free = static_cast<double>(independent - choice.fitted);
  return base::logarithm(hypotheses) + free * base::logarithm(share) >
         base::logarithm(kMostByChance);
}

bool explains(const Case& the_case, double left, const Choice& choice) {
  const bool fits = the_case.exact ? left == 0
                                   : left <= the_case.tolerance.allowed_norm() &&
                                         left <= kMostLeft * difference_of(the_case);
  return fits && !is_by_chance(the_case, left, choice);
}

double reference_unit(const Case& the_case) {
  const measure::TileStats& total = the_case.measurement->total;
  const double whole = the_case.exact ? std::sqrt(static_cast<double>(total.elements))
                                      : measure::reference_norm(total);
  return whole > 0 ? whole : 1;
}

double relative_to_reference(const Case& the_case, double norm) {
  return norm / reference_unit(the_case);
}

double share_of_allowed(const Case& the_case, double left) {
  const double allowed = the_case.tolerance.allowed_norm();
  return allowed > 0 ? left / allowed : 0;
}

Cause cause_of(const Case& the_case, std::string name, std::string axis, base::Message evidence,
               double unexplained, answer::CauseValues more) {
  evidence.values.emplace_back("reference", describe_other_side(the_case));
  Cause cause =
      answer::cause_of(std::move(name), std::move(axis), evidence, unexplained, std::move(more));
  if (!the_case.is_expected_value) {
    std::erase_if(cause.values, [](const auto& value) { return value.first == "reference"; });
  }
  return cause;
}

std::string rendered_for(const Case& the_case, base::Message message) {
  message.values.emplace_back("reference", describe_other_side(the_case));
  return base::render(message);
}

Cause cause_that_leaves(const Case& the_case, double left, std::string name, std::string axis,
                        base::Message evidence, answer::CauseValues more) {
  Cause cause = cause_of(the_case, std::move(name), std::move(axis), std::move(evidence),
                         relative_to_reference(the_case, left), std::move(more));
  if (the_case.exact) {
    cause.evidence = base::render({"{found} (nothing is left)", {{"found", cause.evidence}}});
    return cause;
  }
  const double share = share_of_allowed(the_case, left);
  cause.evidence = base::render({"{found} (what is left: {left} of the allowed)",
                                 {{"found", cause.evidence}, {"left", share}}});
  cause.values.emplace_back("left", share);
  return cause;
}

void reject(const Case& the_case, std::string_view name, double left) {
  if (the_case.rejected == nullptr || !std::isfinite(left)) return;
  const double unexplained = relative_to_reference(the_case, left);
  for (RejectedCause& one : *the_case.rejected) {
    if (one.name != name) continue;
    one.unexplained = std::min(one.unexplained, unexplained);
    return;
  }
  the_case.rejected->push_back({std::string(name), unexplained});
}

std::optional<double> distance_from(const Case& the_case, const measure::TensorRef& other,
                                    const measure::TensorRef& candidate) {
  if (other.source == nullptr || candidate.source == nullptr) return std::nullopt;
  if (other.view->shape != candidate.view->shape) return std::nullopt;
  const measure::Measurement measured = measure::measure(*the_case.backend, other, candidate, {});
  if (measured.total.nonfinite_different > 0) return std::nullopt;
  return the_case.exact ? std::sqrt(static_cast<double>(measured.total.unequal))
                        : measure::difference_norm(measured.total);
}

bool looks_like(const Case& the_case, const measure::TensorRef& other) {
  if (other.source == nullptr) return false;
  const tensor::Shape& shape = the_case.reference.view->shape;
  if (other.view->shape != shape || tensor::element_count(shape).value_or(0) == 0) return false;
  if (tensor::is_floating(other.view->dtype) == the_case.exact) return false;
  const auto& largest = the_case.measurement->total.largest;
  const tensor::Box box =
      sample_around(shape, largest ? largest->at : tensor::Shape(shape.size(), 0));
  const auto c = the_case.candidate.open(measure::Replicas::kFirstOnly);
  const auto r = the_case.reference.open(measure::Replicas::kFirstOnly);
  const auto o = other.open(measure::Replicas::kFirstOnly);
  const double error = squared(the_case, box, *c, *r, box);
  return error > 0 && squared(the_case, box, *c, *o, box) <= kMostLeft * kMostLeft * error;
}

bool is_few_places(std::uint64_t places, std::uint64_t length) {
  return places <= kMostPlaces && 4 * places <= length;
}

MappedDistance distance_when_mapped(const Case& the_case, std::size_t dim, const SliceMap& source) {
  const tensor::Shape& shape = the_case.reference.view->shape;
  const auto c = the_case.candidate.open(measure::Replicas::kFirstOnly);
  const auto r = the_case.reference.open(measure::Replicas::kFirstOnly);
  double left = 0;
  double unknown = 0;
  for (std::size_t i = 0; i < source.size();) {
    // A run of slices that come from slices one after the other.
    std::size_t stop = i + 1;
    const bool known = source[i] != kUnknown;
    while (stop < source.size() && (source[stop] != kUnknown) == known &&
           (!known || source[stop] == source[stop - 1] + 1)) {
      ++stop;
    }
    const std::uint64_t from = known ? static_cast<std::uint64_t>(source[i]) : i;
    tensor::for_each_sub_box(slab(shape, dim, i, stop - i), measure::kReadElements,
                             [&](const tensor::Box& box) {
                               tensor::Box other = box;
                               other.origin[dim] = box.origin[dim] - i + from;
                               (known ? left : unknown) += squared(the_case, box, *c, *r, other);
                             });
    i = stop;
  }
  return {std::sqrt(left), std::sqrt(unknown)};
}

const comparison::TensorComparison* record_of(const Case& the_case, trace::Kind kind) {
  const trace::TensorKey& key = the_case.result->key;
  for (const auto* record : the_case.related->alike(kind, the_case.result->shape)) {
    if (record->key.name != key.name || record->key.step != key.step) continue;
    if (record->candidate != nullptr && record->reference != nullptr) return record;
  }
  return nullptr;
}

std::vector<std::uint64_t> ranks_in(const Case& the_case, const tensor::Box& box) {
  std::set<std::uint64_t> ranks;
  for (const measure::BlockStats& block : the_case.measurement->blocks) {
    const bool touches = std::any_of(
        block.owner->boxes.begin(), block.owner->boxes.end(),
        [&](const tensor::Box& one) { return tensor::intersect(one, box).has_value(); });
    if (touches) ranks.insert(block.owner->ranks.begin(), block.owner->ranks.end());
  }
  return {ranks.begin(), ranks.end()};
}

std::set<std::uint64_t> ranks_with(const measure::TensorRef& tensor) {
  std::set<std::uint64_t> ranks;
  for (const auto& owner : tensor.open(measure::Replicas::kFirstOnly)->rank_boxes()) {
    ranks.insert(owner.ranks.begin(), owner.ranks.end());
  }
  return ranks;
}

tensor::Box slab(const tensor::Shape& shape, std::size_t dim, std::uint64_t first,
                 std::uint64_t count) {
  tensor::Box box = tensor::whole(shape);
  box.origin[dim] = first;
  box.extent[dim] = count;
  return box;
}

std::vector<std::uint64_t> axis_sizes(const Case& the_case) {
  std::set<std::uint64_t> sizes;
  for (const auto& [name, mesh] : the_case.candidate.source->manifest().meshes) {
    for (const trace::MeshAxis& axis : mesh.axes) {
      if (axis.size > 1) sizes.insert(axis.size);
    }
  }
  return {sizes.begin(), sizes.end()};
}

}  // namespace ttrace::localize
