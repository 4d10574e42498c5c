#include "base/text.h"
#include "localize/causes/replicas_along_axis.h"
#include "localize/causes/trial.h"

namespace ttrace::localize {
namespace {

constexpr std::size_t kMostEarlierTried = 64;

base::Message describe_other(const trace::TensorKey& other, const trace::TensorKey& key) {
  if (other.step != key.step) return {"of step {earlier_step}", {{"earlier_step", other.step}}};
  if (other.microbatch != key.microbatch && other.microbatch) {
    return {"of micro-batch {earlier_microbatch}", {{"earlier_microbatch", *other.microbatch}}};
  }
  return {"of call {earlier_call}", {{"earlier_call", other.call}}};
}

// Whether `other` is the same tensor in an earlier step, or in another micro-batch or call of the
// same step. A later step cannot be the source of a value.
bool is_earlier_value(const trace::TensorKey& other, const trace::TensorKey& key) {
  if (other.name != key.name || other.kind != key.kind || other == key) return false;
  if (other.step != key.step) {
    return other.step < key.step && other.microbatch == key.microbatch && other.call == key.call;
  }
  return (other.microbatch != key.microbatch) != (other.call != key.call);
}

// Copies of an updated parameter that are the parameter before the step.
std::vector<Cause> copies_not_updated(const Case& the_case) {
  const trace::TensorKey& key = the_case.result->key;
  if (key.kind != trace::Kind::kParamAfterStep) return {};
  for (const auto* record : the_case.related->alike(trace::Kind::kParam, the_case.result->shape)) {
    const bool before = record->key.name == key.name && record->key.step == key.step;
    if (!before || record->candidate == nullptr) continue;
    std::string unmoved;
    std::string axis;
    for (const CopyOfAxis& copy : copies_that_differ(the_case)) {
      const measure::TensorRef own =
          at_coordinate(the_case.related->candidate(*record), copy.axis, copy.coordinate);
      const auto distance = distance_from(the_case, own, copy.tensor);
      if (!distance || *distance > 0) continue;
      unmoved += base::concat(unmoved.empty() ? "" : ", ", copy.words());
      axis = copy.axis;
    }
    if (unmoved.empty()) return {};
    return {cause_of(
        the_case, "stale", axis,
        {"bit for bit the parameter before the step on {kept_on}", {{"kept_on", unmoved}}}, 0)};
  }
  return {};
}

}  // namespace

std::vector<Cause> find_earlier_value(const Case& the_case) {
  if (the_case.related == nullptr || the_case.result == nullptr) return {};
  if (the_case.conflict) return copies_not_updated(the_case);
  const trace::TensorKey& key = the_case.result->key;
  std::size_t tried = 0;
  for (const auto* record : the_case.related->alike(key.kind, the_case.result->shape)) {
    if (!is_earlier_value(record->key, key) || record->reference == nullptr) continue;
    if (++tried > kMostEarlierTried) break;
    const base::Message which = describe_other(record->key, key);
    const answer::CauseValues numbers(which.values.begin(), which.values.end());
    const measure::TensorRef reference = the_case.related->reference(*record);
    if (looks_like(the_case, reference)) {
      const auto left = distance_from(the_case, reference, the_case.candidate);
      if (left && explains(the_case, *left)) {
        return {cause_that_leaves(
            the_case, *left, "stale", "",
            {"it is {reference}'s value {earlier}", {{"earlier", base::render(which)}}}, numbers)};
      }
      if (left) reject(the_case, "stale", *left);
    }
    const measure::TensorRef own = the_case.related->candidate(*record);
    if (own.source == nullptr || !looks_like(the_case, own)) continue;
    // If the reference has the same value at both times, such as the factor of a loss, an unchanged
    // candidate shows nothing.
    const auto moved = distance_from(the_case, reference, the_case.reference);
    if (moved && *moved == 0) continue;
    const auto left = distance_from(the_case, own, the_case.candidate);
    if (left && *left == 0) {
      return {cause_of(
          the_case, "stale", "",
          {"it is bit for bit its own value {earlier}", {{"earlier", base::render(which)}}}, 0,
          numbers)};
    }
  }
  return {};
}

}  // namespace ttrace::localize
