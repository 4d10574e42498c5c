#include <algorithm>
#include <limits>
#include <set>

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

// Whether `other` is the same tensor at another time: in an earlier step, or in another micro-batch
// or call of the same step. A later step is no hypothesis.
bool is_at_another_time(const trace::TensorKey& other, const trace::TensorKey& key) {
  if (other.name != key.name || other.kind != key.kind || other == key) return false;
  if (other.step != key.step) {
    return other.step < key.step && other.microbatch == key.microbatch && other.call == key.call;
  }
  return (other.microbatch != key.microbatch) != (other.call != key.call);
}

// Whether a rank of the tensor had the other one before: a value that it may have kept. What comes
// later, or lies on other ranks, may be the same by other data or another order alone.
bool is_kept(const Case& the_case, const comparison::TensorComparison& record) {
  const trace::TensorKey& key = the_case.result->key;
  if (record.key.step == key.step) {
    if (record.key.microbatch > key.microbatch || record.key.call > key.call) return false;
  }
  const measure::TensorRef other = the_case.related->candidate(record);
  if (other.source == nullptr) return false;
  const std::set<std::uint64_t> had = ranks_with(other);
  const std::set<std::uint64_t> has = ranks_with(the_case.candidate);
  return std::any_of(has.begin(), has.end(),
                     [&had](std::uint64_t rank) { return had.contains(rank); });
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

// A buffer that a step leaves as it was, though the reference's moves.
std::vector<Cause> buffer_not_written(const Case& the_case) {
  const auto* const before = record_of(the_case, trace::Kind::kBuffer);
  if (before == nullptr) return {};
  const auto moved =
      distance_from(the_case, the_case.related->reference(*before), the_case.reference);
  const auto left =
      distance_from(the_case, the_case.related->candidate(*before), the_case.candidate);
  if (!moved || *moved == 0 || !left || *left > 0) return {};
  const base::Message before_step{"from before the step", {}};
  return {cause_of(the_case, "stale", "", {"it is bit for bit what it was before the step", {}}, 0,
                   {{"earlier", base::render(before_step)}})};
}

}  // namespace

std::vector<Cause> find_earlier_value(const Case& the_case) {
  if (the_case.related == nullptr || the_case.result == nullptr) return {};
  if (the_case.conflict) return copies_not_updated(the_case);
  const trace::TensorKey& key = the_case.result->key;
  if (key.kind == trace::Kind::kBufferAfterStep) {
    if (auto found = buffer_not_written(the_case); !found.empty()) return found;
  }
  // The model's own inputs are data that it was given.
  const bool is_given =
      key.kind == trace::Kind::kInput && trace::module_of_value(key.name) == trace::kWholeModel;
  if (is_given) return {};
  const auto& alike = the_case.related->alike(key.kind, the_case.result->shape);
  const Choice choice{std::min(alike.size(), kMostEarlierTried)};
  std::size_t tried = 0;
  std::optional<Cause> found;
  double nearest = 0;
  double nearest_other = std::numeric_limits<double>::infinity();  // that was not kept
  for (const auto* record : alike) {
    if (!is_at_another_time(record->key, key) || record->reference == nullptr) continue;
    if (++tried > kMostEarlierTried) break;
    const base::Message which = describe_other(record->key, key);
    const answer::CauseValues numbers(which.values.begin(), which.values.end());
    const measure::TensorRef reference = the_case.related->reference(*record);
    if (looks_like(the_case, reference)) {
      const auto left = distance_from(the_case, reference, the_case.candidate);
      if (left && explains(the_case, *left, choice)) {
        if (!is_kept(the_case, *record)) {
          nearest_other = std::min(nearest_other, *left);
        } else if (!found || *left < nearest) {
          nearest = *left;
          found = cause_that_leaves(
              the_case, *left, "stale", "",
              {"it is {reference}'s value {earlier}", {{"earlier", base::render(which)}}}, numbers);
        }
        continue;
      }
      if (left) reject(the_case, "stale", *left);
    }
    const measure::TensorRef own = the_case.related->candidate(*record);
    if (found || own.source == nullptr || !looks_like(the_case, own)) continue;
    // If the reference has the same value at both times, such as the factor of a loss, an unchanged
    // candidate shows nothing.
    const auto moved = distance_from(the_case, reference, the_case.reference);
    if ((moved && *moved == 0) || !is_kept(the_case, *record)) continue;
    // Nor does a constant, unless it was right before: zeros may be zeros for another reason.
    const bool varies = variety_of(the_case).of_candidate > 1;
    if (!varies && record->outcome != judge::Outcome::kMatch) continue;
    const auto left = distance_from(the_case, own, the_case.candidate);
    if (left && *left == 0) {
      nearest = 0;
      found = cause_of(
          the_case, "stale", "",
          {"it is bit for bit its own value {earlier}", {{"earlier", base::render(which)}}}, 0,
          numbers);
    }
  }
  // One that could not be kept, and is as near, says that it was not kept.
  if (found && nearest_other <= kFewestTimesAsFar * nearest) {
    reject(the_case, "stale", nearest);
    return {};
  }
  if (!found) return {};
  return {*std::move(found)};
}

}  // namespace ttrace::localize
