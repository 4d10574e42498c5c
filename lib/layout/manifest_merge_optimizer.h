// The optimizer's parameter groups from all ranks: a pipeline's stages hold parts of each group.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "trace/manifest.h"

namespace ttrace::layout {

class OptimizerUnion {
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
