// The gradient of a parameter that has two names in one run and is two parameters in the other.
#include <cmath>

#include "localize/causes/trial.h"
#include "measure/sections.h"

namespace ttrace::localize {
namespace {

// ‖C - (R + sign·other)‖; nothing if a value is not finite.
std::optional<double> distance_with(const Case& the_case, const measure::TensorRef& other,
                                    double sign) {
  const auto c = the_case.candidate.open(measure::Replicas::kFirstOnly);
  const auto r = the_case.reference.open(measure::Replicas::kFirstOnly);
  const auto o = other.open(measure::Replicas::kFirstOnly);
  std::vector<double> values;
  std::vector<double> expected;
  std::vector<double> of_other;
  double sum2 = 0;
  const tensor::Box all = tensor::whole(the_case.result->shape);
  tensor::for_each_sub_box(all, measure::kReadElements, [&](const tensor::Box& box) {
    for (auto* const into : {&values, &expected, &of_other}) into->resize(tensor::volume(box));
    c->read(box, values);
    r->read(box, expected);
    o->read(box, of_other);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double off = values[i] - expected[i] - sign * of_other[i];
      sum2 += off * off;
    }
  });
  return std::isfinite(sum2) ? std::optional(std::sqrt(sum2)) : std::nullopt;
}

}  // namespace

std::vector<Cause> find_untied(const Case& the_case) {
  if (the_case.related == nullptr || the_case.result == nullptr || the_case.conflict) return {};
  const trace::TensorKey& key = the_case.result->key;
  if (key.kind != trace::Kind::kParamGrad && key.kind != trace::Kind::kMainGrad) return {};
  std::vector<const comparison::TensorComparison*> one_sided;
  for (const auto* record : the_case.related->alike(key.kind, the_case.result->shape)) {
    trace::TensorKey like = record->key;
    like.name = key.name;
    const bool extra = record->outcome == judge::Outcome::kExtra;
    if (like != key || record->key == key) continue;
    if (extra || record->outcome == judge::Outcome::kMissing) one_sided.push_back(record);
  }
  // Where a run lacks whole layers there are many, and one of them would fit by chance.
  constexpr std::size_t kMostTried = 8;
  if (one_sided.empty() || one_sided.size() > kMostTried) return {};
  std::vector<Cause> causes;
  for (const auto* record : one_sided) {
    const bool extra = record->outcome == judge::Outcome::kExtra;
    const auto left = distance_with(
        the_case,
        extra ? the_case.related->candidate(*record) : the_case.related->reference(*record),
        extra ? -1 : 1);
    if (!left) continue;
    if (!explains(the_case, *left, {one_sided.size(), 0})) {
      reject(the_case, "untied", *left);
      continue;
    }
    const std::string& other = record->key.name;
    causes.push_back(cause_that_leaves(
        the_case, *left, "untied", "",
        {extra ? "with that of {other}, which the candidate alone has, it is that of {reference}"
               : "it is the sum of that of {reference} and that of {other}, which the candidate "
                 "lacks",
         {{"other", other}}},
        {{extra ? "lacks" : "holds", other}}));
  }
  return causes;
}

}  // namespace ttrace::localize
