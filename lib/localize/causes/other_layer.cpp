#include <algorithm>
#include <ranges>
#include <string_view>

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

// Whether two names say the same of different layers ("layers.0.fc", "layers.3.fc"), or differ in
// one part ("attn.query.weight", "attn.key.weight").
bool is_sibling(const std::string& one, const std::string& other) {
  if (one == other) return false;
  if (judge::name_pattern(one) == judge::name_pattern(other)) return true;
  const auto parts_of = [](const std::string& name) {
    std::vector<std::string_view> parts;
    for (const auto part : std::views::split(name, '.'))
      parts.emplace_back(part.begin(), part.end());
    return parts;
  };
  const std::vector<std::string_view> parts = parts_of(one);
  const std::vector<std::string_view> others = parts_of(other);
  if (parts.size() < 2 || parts.size() != others.size()) return false;
  std::size_t different = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) different += parts[i] == others[i] ? 0 : 1;
  return different == 1;
}

// Whether the candidate's `record` is what this tensor should be: the two are exchanged.
bool is_exchanged(const Case& the_case, const comparison::TensorComparison& record) {
  if (record.candidate == nullptr) return false;
  const auto left =
      distance_from(the_case, the_case.reference, the_case.related->candidate(record));
  return left && *left <= the_case.tolerance.allowed_norm();
}

}  // namespace

std::vector<Cause> find_other_layer(const Case& the_case) {
  if (the_case.related == nullptr || the_case.result == nullptr) return {};
  if (std::vector<Cause> source = other_source(the_case); !source.empty()) return source;
  const trace::TensorKey& key = the_case.result->key;
  std::size_t tried = 0;
  const auto& alike = the_case.related->alike(key.kind, the_case.result->shape);
  const Choice choice{std::min(alike.size(), kMostLayersTried)};
  std::optional<double> nearest;
  std::optional<double> second;
  const comparison::TensorComparison* found = nullptr;
  for (const auto* record : alike) {
    const trace::TensorKey& other = record->key;
    const bool near = other.step == key.step && other.microbatch == key.microbatch &&
                      other.call == key.call && is_sibling(key.name, other.name);
    if (!near || record->reference == nullptr || ++tried > kMostLayersTried) continue;
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
      found = record;
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
  const std::string& name = found->key.name;
  if (is_exchanged(the_case, *found)) {
    return {cause_that_leaves(
        the_case, *nearest, "other_layer", "",
        {"it is {reference}'s {exchanged}, and that is this one's", {{"exchanged", name}}})};
  }
  return {cause_that_leaves(the_case, *nearest, "other_layer", "",
                            {"it is {reference}'s {other}", {{"other", name}}})};
}

}  // namespace ttrace::localize
