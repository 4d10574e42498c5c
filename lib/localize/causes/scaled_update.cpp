#include <cmath>

#include "localize/causes/gradient_parts.h"
#include "localize/causes/trial.h"
#include "measure/sections.h"
#include "trace/normed_parts.h"

namespace ttrace::localize {
namespace {

constexpr double kMostLeftOfUpdate = 0.1;  // of the difference, that a factor may leave
constexpr double kMostOffRatio = 1e-3;     // relative, of a ratio of norms

// Sums over the steps U = P' - P of the reference, V of the candidate, and D = V - U.
struct Steps {
  double rr = 0;
  double cc = 0;
  double dd = 0;
  double rd = 0;
};

Steps steps_of(const Case& the_case, const comparison::TensorComparison& before) {
  const auto open = [](const measure::TensorRef& tensor) {
    return tensor.open(measure::Replicas::kFirstOnly);
  };
  const auto r1 = open(the_case.reference);
  const auto c1 = open(the_case.candidate);
  const auto r0 = open(the_case.related->reference(before));
  const auto c0 = open(the_case.related->candidate(before));
  Steps sums;
  std::vector<double> after_r;
  std::vector<double> after_c;
  std::vector<double> before_r;
  std::vector<double> before_c;
  tensor::for_each_sub_box(tensor::whole(the_case.reference.view->shape), measure::kReadElements,
                           [&](const tensor::Box& box) {
                             const auto read = [&](measure::TensorReader& from,
                                                   std::vector<double>& to) {
                               to.resize(tensor::volume(box));
                               from.read(box, to);
                             };
                             read(*r1, after_r);
                             read(*c1, after_c);
                             read(*r0, before_r);
                             read(*c0, before_c);
                             for (std::size_t i = 0; i < after_r.size(); ++i) {
                               const double u = after_r[i] - before_r[i];
                               const double v = after_c[i] - before_c[i];
                               sums.rr += u * u;
                               sums.cc += v * v;
                               sums.dd += (v - u) * (v - u);
                               sums.rd += u * (v - u);
                             }
                           });
  return sums;
}

// The part of the gradients by whose norm the update would have been clipped; empty if of all.
std::string clipped_by(const Case& the_case, double factor) {
  const trace::TensorKey& key = the_case.result->key;
  const trace::NormedParts parts(the_case.related->candidate_run().manifest());
  const NormedGradients normed{key.step, parts.part_with(key.step, key.name)};
  const auto all = norm_of_all(*the_case.related, normed);
  if (!all) return "";
  for (const PartNorm& part : norms_of_parts(*the_case.related, normed)) {
    if (part.norm > 0 && std::abs(factor * part.norm / *all - 1) <= kMostOffRatio) {
      return part.words;
    }
  }
  return "";
}

}  // namespace

std::vector<Cause> find_scaled_update(const Case& the_case) {
  if (the_case.related == nullptr || the_case.result == nullptr || the_case.exact) return {};
  const trace::TensorKey& key = the_case.result->key;
  const auto elements = tensor::element_count(the_case.result->shape);
  if (key.kind != trace::Kind::kParamAfterStep || the_case.conflict) return {};
  if (!elements || *elements < 2 || *elements > kMostElementsForCauses) return {};
  for (const auto* record : the_case.related->alike(trace::Kind::kParam, the_case.result->shape)) {
    const bool before = record->key.name == key.name && record->key.step == key.step;
    if (!before || record->candidate == nullptr || record->reference == nullptr) continue;
    const Steps sums = steps_of(the_case, *record);
    if (!(sums.rr > 0) || !std::isfinite(sums.cc)) return {};
    const double beyond_one = sums.rd / sums.rr;
    const double factor = 1 + beyond_one;
    const double left = std::sqrt(std::max(0.0, sums.dd - beyond_one * sums.rd));
    const double error = std::sqrt(sums.dd);
    // Where the candidate hardly moved, any multiple near 0 leaves little: that is an update of its
    // own, or none, which find_stale names.
    if (!(error > 0) || !(left <= kMostLeftOfUpdate * error) || !(2 * left < std::sqrt(sums.cc))) {
      reject(the_case, "scaled", left);
      return {};
    }
    if (std::abs(factor) < kMostLeftOfUpdate * kMostLeftOfUpdate) return {};
    const double uncertainty = left / std::sqrt(sums.rr);
    const std::string clipped = clipped_by(the_case, factor);
    base::Message evidence{
        "its update is {multiple} times {reference}'s[, as if clipped by the norm of "
        "{clipped_by} "
        "and not of all] (what is left: {left_of_difference} of the difference)",
        {{"multiple", describe_factor(factor, uncertainty)}, {"left_of_difference", left / error}}};
    if (!clipped.empty()) evidence.values.emplace_back("clipped_by", clipped);
    return {cause_of(the_case, "scaled", "", evidence, relative_to_reference(the_case, left),
                     {{"factor", factor}, {"times", shortest_factor(factor, uncertainty)}})};
  }
  return {};
}

}  // namespace ttrace::localize
