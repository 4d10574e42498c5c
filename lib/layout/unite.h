// The parts of the manifest that the ranks embed in their files, made into the manifest of the run.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "layout/unite_optimizer.h"
#include "layout/unite_run.h"
#include "layout/unite_words.h"
#include "trace/manifest.h"

namespace ttrace::layout {

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
