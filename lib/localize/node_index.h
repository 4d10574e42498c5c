// Finds recorded tensors by what the data-flow rules know of them.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "localize/dataflow.h"

namespace ttrace::localize {

class NodeIndex {
 public:
  explicit NodeIndex(const std::vector<Node>& nodes);

  const std::vector<Node>& nodes() const { return *nodes_; }

  // All calls and copies of exactly this tensor, in the step and micro-batch of `like`; without a
  // micro-batch in `like`, of all its micro-batches.
  std::vector<std::size_t> find(const trace::TensorKey& like, trace::Kind kind,
                                std::string_view name) const;
  // The same for every value of a module: "m", "m[1]", "m[2]", ...
  std::vector<std::size_t> find_values(const trace::TensorKey& like, trace::Kind kind,
                                       std::string_view module) const;
  // All tensors of a kind in the step of `like`, and its micro-batch if it has one.
  std::vector<std::size_t> find_kind(const trace::TensorKey& like, trace::Kind kind) const;
  // Of exactly this name and kind in another step, whatever the micro-batch.
  std::vector<std::size_t> find_in_step(std::uint64_t step, trace::Kind kind,
                                        std::string_view name) const;
  // The optimizer's states of a parameter, "<parameter>.<state>", in the step of `like`.
  std::vector<std::size_t> find_states(const trace::TensorKey& like,
                                       std::string_view parameter) const;
  // Of this kind, named "<module>.<part>" with a part of one word, in `step`, whatever the
  // micro-batch; those of "(model)" have no dot.
  std::vector<std::size_t> find_parts(std::uint64_t step, trace::Kind kind,
                                      std::string_view module) const;

 private:
  using ByName = std::map<std::tuple<std::uint64_t, trace::Kind, std::string, std::string>,
                          std::vector<std::size_t>, std::less<>>;

  bool same_microbatch(const trace::TensorKey& like, std::size_t node) const;

  const std::vector<Node>* nodes_;
  ByName values_;  // (step, kind, module, name)
  std::map<std::pair<std::uint64_t, trace::Kind>, std::vector<std::size_t>> kinds_;
};

}  // namespace ttrace::localize
