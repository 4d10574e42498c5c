// The facts of a run and its optimizer's parameter groups, merged from the manifests of its ranks.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "trace/manifest.h"

namespace ttrace::layout {

class RunMerge {
 public:
  // Adds the facts of the manifest of `rank`. Ranks ascend.
  void add(std::uint64_t rank, trace::RunFacts facts);

  // Whether the rank's manifest says what was asked for (`run.recorded`); version 1 does not.
  bool knows(std::uint64_t rank) const { return recorded_.contains(rank); }

  // Whether the rank was asked to record its shard of the tensor, ran the step to its end and
  // closed its trace. False for tensors placed by rows: only the index knows whether the rank has
  // any.
  bool asked(std::uint64_t rank, const trace::TensorEntry& entry) const;

  // Those of the lowest rank, with `recorded` (the kinds and the finished steps that all ranks that
  // record anything have in common, and the modules of any; absent where a rank lacks it) and
  // `unfinished` of all ranks.
  trace::RunFacts facts() const;

 private:
  trace::RunFacts first_;
  std::size_t ranks_ = 0;
  std::map<std::uint64_t, trace::Recorded> recorded_;
  std::set<std::uint64_t> unfinished_;
};

// Merges the optimizer's parameter groups: the stages of a pipeline have parts of each group.
class OptimizerMerge {
 public:
  void add(std::uint64_t rank, const trace::OptimizerGroup& group);

  // Groups with the same facts as one, by step. Throws an input error if a parameter is in two
  // groups of a step.
  std::vector<trace::OptimizerGroup> groups() const;

 private:
  struct Group {
    trace::OptimizerGroup facts;  // params in the order they were met
    std::set<std::string> params;
    std::vector<std::uint64_t> ranks;
  };
  // Everything but the parameters.
  using Facts = std::tuple<std::uint64_t, std::string, std::map<std::string, double>,
                           std::map<std::string, bool>, std::vector<double>>;

  std::vector<Group> groups_;
  std::map<Facts, std::size_t> known_;
};

}  // namespace ttrace::layout
