// What a manifest says of the optimizer, by step and parameter.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <tuple>

#include "trace/manifest.h"

namespace ttrace::engine {

class OptimizerIndex {
 public:
  // `manifest` must outlive the index.
  explicit OptimizerIndex(const trace::Manifest& manifest);

  bool knows_step(std::uint64_t step) const { return steps_.contains(step); }

  struct Found {
    const trace::OptimizerGroup* group = nullptr;  // null: in none
    bool twice = false;                            // in several
  };
  Found find(std::uint64_t step, const std::string& parameter) const;

  // Null if the manifest has no such tensor.
  const trace::TensorEntry* tensor(const trace::TensorKey& key) const;
  // The state `<parameter>.<state>` that the step of `parameter` begins with.
  const trace::TensorEntry* state(const trace::TensorKey& parameter, std::string_view state) const;

 private:
  std::set<std::uint64_t> steps_;
  std::map<std::pair<std::uint64_t, std::string>, Found> groups_;
  std::map<trace::TensorKey, const trace::TensorEntry*> tensors_;
};

}  // namespace ttrace::engine
