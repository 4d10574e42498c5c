// Look-up of nodes and modules by what the data-flow rules know of them, and the rules themselves.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "localize/dataflow.h"

namespace ttrace::localize {

// The manifest's modules by name, by the values they take and by the parameters they use.
class ModuleGraph {
 public:
  explicit ModuleGraph(const std::vector<trace::Module>& modules);

  const trace::Module* find(std::string_view name) const;
  // What the module's outputs were computed from directly.
  static const std::vector<std::string>& sources_of(const trace::Module& module);

  using Modules = std::vector<const trace::Module*>;
  // Modules that take the value as an input.
  const Modules& consumers(std::string_view value) const { return in(consumers_, value); }
  // Modules whose output was computed directly from the value, which is no input of theirs: the
  // containers around its producer, and the loss.
  const Modules& returners(std::string_view value) const { return in(returners_, value); }
  // Modules that use the parameter themselves.
  const Modules& users(std::string_view param) const { return in(users_, param); }

 private:
  using Lists = std::map<std::string, Modules, std::less<>>;

  static const Modules& in(const Lists& lists, std::string_view name);

  std::map<std::string, const trace::Module*, std::less<>> by_name_;
  Lists consumers_;
  Lists returners_;
  Lists users_;
};

class NodeIndex {
 public:
  // `nodes` must outlive the index.
  explicit NodeIndex(const std::vector<FlowNode>& nodes);

  const std::vector<FlowNode>& nodes() const { return *nodes_; }

  // All calls and copies of exactly this tensor, in the step and micro-batch of `like`; without a
  // micro-batch in `like`, of all its micro-batches.
  std::vector<std::size_t> find(const trace::TensorKey& like, trace::Kind kind,
                                std::string_view name) const;
  // As find(), but for all values of a module: "m", "m[1]", "m[2]", ...
  std::vector<std::size_t> find_values(const trace::TensorKey& like, trace::Kind kind,
                                       std::string_view module) const;
  // All tensors of a kind in the step of `like`, and its micro-batch if it has one.
  std::vector<std::size_t> find_kind(const trace::TensorKey& like, trace::Kind kind) const;
  // All tensors of this name and kind in `step`, in any micro-batch.
  std::vector<std::size_t> find_in_step(std::uint64_t step, trace::Kind kind,
                                        std::string_view name) const;
  // All tensors of this kind in `step` named "<owner>.<word>", in any micro-batch: the buffers of a
  // module, the optimizer's states of a parameter. Names that belong to "(model)" have no dot.
  std::vector<std::size_t> find_owned(std::uint64_t step, trace::Kind kind,
                                      std::string_view owner) const;

 private:
  // Step, kind, module, name; the texts are the nodes'.
  using Place = std::tuple<std::uint64_t, trace::Kind, std::string_view, std::string_view>;

  Place place_of(std::size_t node) const;
  // Returns the first of `sorted_` whose place is not before `place`.
  std::vector<std::size_t>::const_iterator first_from(const Place& place) const;
  std::vector<std::size_t> in_microbatch(const trace::TensorKey& like,
                                         const std::vector<std::size_t>& nodes) const;

  const std::vector<FlowNode>* nodes_;
  std::vector<std::size_t> sorted_;  // all nodes by place, those of one place in their order
};

}  // namespace ttrace::localize
