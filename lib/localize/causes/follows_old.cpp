#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "localize/causes/trial.h"

namespace ttrace::localize {
namespace {

constexpr std::uint64_t kMostOfAverage = std::uint64_t{1} << 18U;  // elements that are read
constexpr std::uint64_t kFewestOfAverage = 8;
// Of how far an average moved, what is left by a multiple of its way to the parameter; rounding of
// an average that hardly moves leaves a part of it.
constexpr double kMostLeftOfMove = 0.25;
constexpr double kFewestTimesAsGood = 4;  // than the way to the other one of the two parameters

using Reals = std::vector<double>;

// The elements of the first slices.
Reals first_values(const measure::TensorRef& tensor, const tensor::Shape& shape) {
  tensor::Box box = tensor::whole(shape);
  if (!shape.empty()) {
    const std::uint64_t row = tensor::volume(box) / std::max<std::uint64_t>(shape[0], 1);
    box.extent[0] = std::clamp<std::uint64_t>(kMostOfAverage / std::max<std::uint64_t>(row, 1),
                                              std::min<std::uint64_t>(shape[0], 1), shape[0]);
  }
  Reals values(tensor::volume(box));
  tensor.open(measure::Replicas::kFirstOnly)->read(box, values);
  return values;
}

// An average before and after a step, and the parameter that it follows, likewise.
struct Followed {
  Reals average, moved, parameter, updated;

  // The share of the way to the parameter that the average went, and what of its move that leaves.
  struct Way {
    double share = 0;
    double left = 0;
  };
  Way way_to(const Reals& target) const {
    double across = 0;
    double length = 0;
    double move = 0;
    for (std::size_t i = 0; i < average.size(); ++i) {
      const double went = moved[i] - average[i];
      const double way = target[i] - average[i];
      across += went * way;
      length += way * way;
      move += went * went;
    }
    if (!(length > 0) || !(move > 0)) return {0, 1};
    const double share = across / length;
    return {share, std::sqrt(std::max(0.0, move - share * across) / move)};
  }
};

// The record of the parameter whose name stands at the end of the average's; null without one.
const comparison::TensorComparison* followed_by(const Case& the_case, trace::Kind kind) {
  const trace::TensorKey& key = the_case.result->key;
  for (const auto* record : the_case.related->alike(kind, the_case.result->shape)) {
    const std::string& name = record->key.name;
    if (record->key.step != key.step || name.size() >= key.name.size()) continue;
    if (!key.name.ends_with(name) || key.name[key.name.size() - name.size() - 1] != '.') continue;
    if (record->candidate != nullptr && record->reference != nullptr) return record;
  }
  return nullptr;
}

}  // namespace

std::vector<Cause> find_follows_old(const Case& the_case) {
  if (the_case.related == nullptr || the_case.result == nullptr || the_case.exact) return {};
  if (the_case.result->key.kind != trace::Kind::kBufferAfterStep) return {};
  const auto* const average = record_of(the_case, trace::Kind::kBuffer);
  const auto* const parameter = followed_by(the_case, trace::Kind::kParam);
  const auto* const updated = followed_by(the_case, trace::Kind::kParamAfterStep);
  if (average == nullptr || parameter == nullptr || updated == nullptr) return {};
  const Related& related = *the_case.related;
  const tensor::Shape& shape = the_case.result->shape;
  const auto read = [&](measure::TensorRef (Related::*side)(const comparison::TensorComparison&)
                            const,
                        const measure::TensorRef& moved) {
    return Followed{first_values((related.*side)(*average), shape), first_values(moved, shape),
                    first_values((related.*side)(*parameter), shape),
                    first_values((related.*side)(*updated), shape)};
  };
  const Followed right = read(&Related::reference, the_case.reference);
  const Followed wrong = read(&Related::candidate, the_case.candidate);
  if (right.average.size() < kFewestOfAverage) return {};
  const auto is_new = [](const Followed& one) {
    return one.way_to(one.updated).left * kFewestTimesAsGood <= one.way_to(one.parameter).left;
  };
  const Followed::Way old = wrong.way_to(wrong.parameter);
  const bool is_old = old.left <= kMostLeftOfMove &&
                      old.left * kFewestTimesAsGood <= wrong.way_to(wrong.updated).left;
  if (!is_new(right) || !is_old) {
    reject(the_case, "follows_old", difference_of(the_case));
    return {};
  }
  return {cause_of(the_case, "follows_old", "",
                   {"it went {share} of the way to the parameter from before the update",
                    {{"share", old.share}}},
                   0)};
}

}  // namespace ttrace::localize
