// What the ranks were told to record, and the facts of the run made of theirs.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "trace/manifest.h"

namespace ttrace::layout {

class RunUnion {
 public:
  // The facts that the part of `rank` has. Ranks ascend.
  void add(std::uint64_t rank, trace::RunFacts facts);

  // Whether the rank says what it was told to record; version 1 does not.
  bool knows(std::uint64_t rank) const { return recorded_.contains(rank); }

  // Whether the rank was to have its part of the tensor, ran the step to its end and closed its
  // trace. Which rows a rank has stands in the index alone, and it may have none.
  bool asked(std::uint64_t rank, const trace::TensorEntry& entry) const;

  // Those of the lowest rank. `recorded`: the kinds and the finished steps of all ranks that record
  // at all, and the modules of any; absent where a rank does not say. `unfinished` of all.
  trace::RunFacts facts() const;

 private:
  trace::RunFacts first_;
  std::size_t ranks_ = 0;
  std::map<std::uint64_t, trace::Recorded> recorded_;
  std::set<std::uint64_t> unfinished_;
};

}  // namespace ttrace::layout
