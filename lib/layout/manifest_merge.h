// What the ranks were told to record, and the facts of the run made of theirs.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "layout/describe_merge.h"
#include "layout/manifest_merge_optimizer.h"
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

// The parts of the manifest that the ranks embed in their files, made into the manifest of the run.

struct United {
  trace::Manifest manifest;
  std::vector<std::uint64_t> lost_ranks;  // of the meshes, without a part
  std::vector<std::string> findings;      // what therefore cannot be known
};

// Takes the parts one after the other, so that those of thousands of ranks need not be in memory
// together.
class ManifestUnion {
 public:
  // Ranks ascend; parts are as parse_manifest gives them. Contradictions are kept for finish(),
  // which knows all ranks they concern.
  void add(std::uint64_t rank, trace::Manifest part);

  // One manifest: tensors by step, execution order and key; modules as the lowest rank tells them;
  // optimizer groups with the same facts as one; `computed_in` the coarsest, `order` the lowest of
  // the ranks' own; `held_at` and `absent_on` from who holds the tensor; `run` as RunUnion::facts.
  //
  // Throws an input error if there is no part, if ranks say different things of one tensor, its
  // optimizer or the meshes, if a rank lies on no mesh, if
  // their formats are of two versions, and as set_holders(). To be called once.
  United finish();

 private:
  struct Tensor {
    trace::TensorEntry entry;
    tensor::DType computed_in;
    std::vector<std::uint64_t> ranks;
  };
  struct Contradiction {
    std::size_t tensor = 0;
    EntryDifference difference;
    std::vector<std::uint64_t> others;  // that say the second
  };

  void add_tensor(std::uint64_t rank, trace::TensorEntry entry);
  void require_one_run() const;
  void require_no_contradiction() const;
  void unite_tensors();

  std::vector<std::uint64_t> ranks_;
  trace::Manifest whole_;  // tensors and optimizer are below until finish()
  std::vector<Tensor> tensors_;
  std::map<trace::TensorKey, std::size_t> known_tensors_;
  OptimizerUnion optimizer_;
  RunUnion run_;
  std::set<std::string> known_modules_;
  std::optional<Contradiction> contradiction_;
  std::vector<std::uint64_t> of_other_run_;  // ranks that say other meshes than the first
  std::string other_meshes_;
  std::vector<std::uint64_t> of_other_version_;
};

// The parts of all ranks at once. Throws as ManifestUnion::finish.
United unite_manifests(const std::map<std::uint64_t, trace::Manifest>& parts);

}  // namespace ttrace::layout
