// The pairs of a comparison by the names of their tensors.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "comparison/result.h"
#include "trace/key.h"

namespace ttrace::routing {

// Looks up pairs beside one of them: of the same step and micro-batch. Used by one thread.
class NamedPairs {
 public:
  static constexpr std::size_t kMostValues = 64;  // of one module

  // `results` must outlive it.
  explicit NamedPairs(const std::vector<comparison::TensorComparison>& results)
      : results_(results) {}

  // The pair of this kind and name in the call and copy of `like`.
  std::optional<std::size_t> find(const trace::TensorKey& like, trace::Kind kind,
                                  const std::string& name) const;

  // The values of the module in the call of `like`: "m", then "m[...]"; at most kMostValues.
  std::vector<std::size_t> values_of(const trace::TensorKey& like, trace::Kind kind,
                                     const std::string& module) const;

  // Visits the pairs of this kind, of all calls, whose names start so, until `visit` returns
  // false.
  using Visit = std::function<bool(const trace::TensorKey& key, std::size_t pair)>;
  void for_each_named(const trace::TensorKey& like, trace::Kind kind, const std::string& start,
                      const Visit& visit) const;

  // Whether it was measured and holds floating-point numbers.
  bool is_floating_pair(std::size_t pair) const;

 private:
  // The first of `by_key_` whose key is not before `key`.
  std::vector<std::size_t>::const_iterator first_from(const trace::TensorKey& key) const;

  const std::vector<comparison::TensorComparison>& results_;
  // Sorted at the first look-up: most runs have no router and look nothing up.
  mutable std::vector<std::size_t> by_key_;
};

}  // namespace ttrace::routing
