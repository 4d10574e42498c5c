#include "localize/name_suggestions.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/names.h"

namespace ttrace::localize {
namespace {

using judge::Outcome;

constexpr std::size_t kMostNamed = 3;
// The names of two whole models are compared in pairs; beyond this nobody reads the answers.
constexpr std::size_t kMostLookedUp = 200;

using Alike = std::pair<trace::Kind, tensor::Shape>;
using NamesByAlike = std::map<Alike, std::vector<std::string>>;

NamesByAlike names_with(Outcome outcome, const std::vector<comparison::TensorComparison>& results) {
  NamesByAlike names;
  for (const comparison::TensorComparison& result : results) {
    if (result.outcome != outcome) continue;
    std::vector<std::string>& there = names[{result.key.kind, result.shape}];
    const bool known = std::find(there.begin(), there.end(), result.key.name) != there.end();
    if (!known && there.size() < kMostLookedUp) there.push_back(result.key.name);
  }
  return names;
}

}  // namespace

void find_nearest_names(std::vector<comparison::TensorComparison>& results) {
  const NamesByAlike missing = names_with(Outcome::kMissing, results);
  const NamesByAlike extra = names_with(Outcome::kExtra, results);
  std::map<std::pair<Alike, std::string>, std::vector<std::string>> known;
  for (comparison::TensorComparison& result : results) {
    const bool is_missing = result.outcome == Outcome::kMissing;
    if (!is_missing && result.outcome != Outcome::kExtra) continue;
    const NamesByAlike& others = is_missing ? extra : missing;
    const Alike alike{result.key.kind, result.shape};
    const auto candidates = others.find(alike);
    if (candidates == others.end()) continue;
    const auto found = known.find({alike, result.key.name});
    if (found != known.end()) {
      result.nearest = found->second;
    } else if (known.size() < kMostLookedUp) {
      result.nearest = base::nearest_names(result.key.name, candidates->second, kMostNamed);
      known.emplace(std::pair(alike, result.key.name), result.nearest);
    }
  }
}

}  // namespace ttrace::localize
