// Merges the manifests that the ranks embed in their files into the manifest of the run. The rules
// are in schemas/trace-v2.md, "Merging".
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "layout/describe_merge.h"
#include "layout/manifest_merge_run.h"
#include "trace/manifest.h"

namespace ttrace::layout {

struct MergedManifest {
  trace::Manifest manifest;
  std::vector<std::uint64_t> lost_ranks;  // of the meshes, without a manifest
  std::vector<std::string> findings;      // what is unknown for lack of them
};

// Takes the ranks' manifests one after the other, so that those of thousands of ranks need not be
// in memory together.
class ManifestMerge {
 public:
  // Adds the manifest of `rank` as parse_manifest gives it. Ranks ascend. Contradictions are kept
  // for finish(), which knows all ranks they concern.
  void add(std::uint64_t rank, trace::Manifest part);

  // Returns the manifest of the run. Throws an input error if no manifest was added, if ranks
  // describe a tensor, the optimizer or the meshes differently, if a rank lies on no mesh, if their
  // formats are of two versions, and as set_ranks(). To be called once.
  MergedManifest finish();

 private:
  struct Tensor {
    trace::TensorEntry entry;
    tensor::DType computed_in;
    std::vector<std::uint64_t> ranks;
  };
  struct Contradiction {
    std::size_t tensor = 0;
    EntryDifference difference;
    std::vector<std::uint64_t> others;  // ranks with the second
  };

  void add_tensor(std::uint64_t rank, trace::TensorEntry entry);
  void require_one_run() const;
  void require_no_contradiction() const;
  void merge_tensors();

  std::vector<std::uint64_t> ranks_;
  trace::Manifest whole_;  // tensors and optimizer are below until finish()
  std::vector<Tensor> tensors_;
  std::map<trace::TensorKey, std::size_t> known_tensors_;
  OptimizerMerge optimizer_;
  RunMerge run_;
  std::set<std::string> known_modules_;
  std::optional<Contradiction> contradiction_;
  std::vector<std::uint64_t> of_other_run_;  // ranks that say other meshes than the first
  std::string other_meshes_;
  std::vector<std::uint64_t> of_other_version_;
};

// Merges the manifests of all ranks. Throws as ManifestMerge::finish.
MergedManifest merge_manifests(const std::map<std::uint64_t, trace::Manifest>& parts);

}  // namespace ttrace::layout
