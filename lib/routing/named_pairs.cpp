#include "routing/named_pairs.h"

#include <algorithm>
#include <numeric>

namespace ttrace::routing {

using trace::Kind;
using trace::TensorKey;

std::optional<std::size_t> NamedPairs::find(const TensorKey& like, Kind kind,
                                            const std::string& name) const {
  TensorKey key = like;
  key.kind = kind;
  key.name = name;
  const auto found = first_from(key);
  if (found == by_key_.end() || results_[*found].key != key) return std::nullopt;
  return *found;
}

std::vector<std::size_t> NamedPairs::values_of(const TensorKey& like, Kind kind,
                                               const std::string& module) const {
  std::vector<std::size_t> found;
  if (const auto first = find(like, kind, module)) found.push_back(*first);
  for_each_named(like, kind, module + "[", [&](const TensorKey& key, std::size_t pair) {
    const bool same = key.call == like.call && key.copy == like.copy;
    if (same) found.push_back(pair);
    return found.size() < kMostValues;
  });
  return found;
}

void NamedPairs::for_each_named(const TensorKey& like, Kind kind, const std::string& start,
                                const Visit& visit) const {
  TensorKey first = like;
  first.kind = kind;
  first.name = start;
  first.call = 0;
  first.copy = 0;
  for (auto at = first_from(first); at != by_key_.end(); ++at) {
    const TensorKey& key = results_[*at].key;
    if (key.step != like.step || key.microbatch != like.microbatch || key.kind != kind ||
        !key.name.starts_with(start) || !visit(key, *at)) {
      return;
    }
  }
}

bool NamedPairs::is_floating_pair(std::size_t pair) const {
  return results_[pair].comparison && !results_[pair].exact;
}

std::vector<std::size_t>::const_iterator NamedPairs::first_from(const TensorKey& key) const {
  const auto key_of = [this](std::size_t i) -> const TensorKey& { return results_[i].key; };
  if (by_key_.empty()) {
    by_key_.resize(results_.size());
    std::iota(by_key_.begin(), by_key_.end(), std::size_t{0});
    std::sort(by_key_.begin(), by_key_.end(),
              [&](std::size_t a, std::size_t b) { return key_of(a) < key_of(b); });
  }
  return std::lower_bound(
      by_key_.begin(), by_key_.end(), key,
      [&](std::size_t i, const TensorKey& sought) { return key_of(i) < sought; });
}

}  // namespace ttrace::routing
