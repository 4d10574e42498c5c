#include <algorithm>

#include "judge/slices.h"
#include "localize/causes/trial.h"

namespace ttrace::localize {
namespace {

// Tensors of other layers that are looked at.
constexpr std::size_t kMostLayersTried = 512;

// An input that is, bit for bit, the run's own output of a module from which the reference's input
// does not come.
std::vector<Cause> other_source(const Case& the_case) {
  const trace::TensorKey& key = the_case.result->key;
  if (key.kind != trace::Kind::kInput || the_case.exact) return {};
  std::size_t tried = 0;
  for (const auto* record : the_case.related->alike(trace::Kind::kOutput, the_case.result->shape)) {
    if (record->key.step != key.step || record->key.microbatch != key.microbatch) continue;
    if (record->reference == nullptr || record->candidate == nullptr) continue;
    if (++tried > kMostLayersTried) break;
    const measure::TensorRef own = the_case.related->candidate(*record);
    if (!looks_like(the_case, own)) continue;
    const auto distance = distance_from(the_case, own, the_case.candidate);
    const auto of_reference =
        distance_from(the_case, the_case.reference, the_case.related->reference(*record));
    if (!distance || *distance > 0 || !of_reference) continue;
    if (*of_reference <= the_case.tolerance.allowed_norm()) continue;
    return {
        cause_of(the_case, "other_layer", "",
                 {"it is bit for bit the run's own output of {source}, which {reference}'s is not",
                  {{"source", record->key.name}}},
                 0)};
  }
  return {};
}

}  // namespace

std::vector<Cause> find_other_layer(const Case& the_case) {
  if (the_case.related == nullptr || the_case.result == nullptr) return {};
  if (std::vector<Cause> source = other_source(the_case); !source.empty()) return source;
  const trace::TensorKey& key = the_case.result->key;
  const std::string pattern = judge::name_pattern(key.name);
  if (pattern == key.name) return {};
  std::size_t tried = 0;
  const auto& alike = the_case.related->alike(key.kind, the_case.result->shape);
  const Choice choice{std::min(alike.size(), kMostLayersTried)};
  std::optional<double> nearest;
  std::optional<double> second;
  std::string name;
  for (const auto* record : alike) {
    const trace::TensorKey& other = record->key;
    const bool sibling = other.name != key.name && other.step == key.step &&
                         other.microbatch == key.microbatch && other.call == key.call &&
                         judge::name_pattern(other.name) == pattern;
    if (!sibling || record->reference == nullptr || ++tried > kMostLayersTried) continue;
    const measure::TensorRef reference = the_case.related->reference(*record);
    if (!looks_like(the_case, reference)) continue;
    const auto left = distance_from(the_case, reference, the_case.candidate);
    if (!left) continue;
    if (!explains(the_case, *left, choice)) {
      reject(the_case, "other_layer", *left);
      continue;
    }
    if (!nearest || *left < *nearest) {
      second = nearest;
      nearest = left;
      name = other.name;
    } else if (!second || *left < *second) {
      second = left;
    }
  }
  if (!nearest) return {};
  // Where several layers are alike, it is as well none of them.
  if (second && *second <= kFewestTimesAsFar * *nearest) {
    reject(the_case, "other_layer", *nearest);
    return {};
  }
  return {cause_that_leaves(the_case, *nearest, "other_layer", "",
                            {"it is {reference}'s {other}", {{"other", name}}})};
}

}  // namespace ttrace::localize
