// Merges the manifests that the ranks embed in their files into the manifest of the run. The rules
// are in schemas/trace-v2.md, "Merging". Other rooms use ManifestMerge.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "layout/manifest_merge_uneven.h"
#include "trace/manifest.h"

namespace ttrace::layout {

// The facts of a run.
class RunMerge {
 public:
  // Adds the facts of the manifest of `rank`. Ranks ascend.
  void add(std::uint64_t rank, trace::RunFacts facts);

  // Whether the rank's manifest says what was asked for (`run.recorded`).
  bool knows(std::uint64_t rank) const { return recorded_.contains(rank); }

  // Whether the rank was asked to record its shard of the tensor, ran the step to its end and
  // closed its trace. False for tensors placed by rows: only the index knows whether the rank has
  // any.
  bool asked(std::uint64_t rank, const trace::TensorEntry& entry) const;

  // The facts of the lowest rank, with `unfinished` of all and the largest `updates_before`. Its
  // `recorded` (absent where a rank lacks it) has the kinds and finished steps common to all ranks
  // that record anything, and the modules of any. Entries of `incomplete` that differ only in ranks
  // are one.
  trace::RunFacts facts() const;

 private:
  trace::RunFacts first_;
  std::size_t ranks_ = 0;
  std::map<std::uint64_t, trace::Recorded> recorded_;
  std::optional<std::uint64_t> updates_before_;
  std::set<std::uint64_t> unfinished_;
  std::map<std::pair<std::string, std::string>, std::set<std::uint64_t>> incomplete_;
};

// The optimizer's parameter groups: the stages of a pipeline have parts of each group.
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
                           std::map<std::string, bool>, std::vector<double>, std::string>;

  std::vector<Group> groups_;
  std::map<Facts, std::size_t> known_;
};

struct MergedManifest {
  trace::Manifest manifest;
  std::vector<std::uint64_t> lost_ranks;  // of the meshes, without a manifest
  std::vector<std::string> findings;      // what is unknown for lack of them
};

// A member of a tensor's entry about which two ranks disagree, and the value of each.
struct EntryDifference {
  std::string member;
  std::string first;
  std::string second;
};

// Returns nothing if the entries describe one tensor alike. `order`, `position` and `computed_in`
// may differ: a stage may compute in a wider type. An axis without a placement replicates.
std::optional<EntryDifference> entry_difference(const trace::TensorEntry& first,
                                                const trace::TensorEntry& second);

// Takes the ranks' manifests one after the other, so that those of thousands of ranks need not be
// in memory together.
class ManifestMerge {
 public:
  // Adds the manifest of `rank` as parse_manifest gives it. Ranks ascend. Contradictions are kept
  // for finish(), which knows all ranks they concern.
  void add(std::uint64_t rank, trace::Manifest part);

  // Returns the manifest of the run. Throws an input error if no manifest was added, if ranks
  // describe a tensor, the optimizer or the meshes differently, if a rank lies on no mesh, and as
  // set_ranks(). To be called once.
  MergedManifest finish();

 private:
  struct Tensor {
    trace::TensorEntry entry;
    tensor::DType computed_in;
    std::vector<std::uint64_t> ranks;
    ShapesByRank other_shapes;  // of ranks that say another than `entry`
  };
  struct Contradiction {
    std::size_t tensor = 0;
    EntryDifference difference;
    std::vector<std::uint64_t> others;  // ranks with the second
  };

  void add_tensor(std::uint64_t rank, trace::TensorEntry entry);
  void require_one_run() const;
  static ShapesByRank shapes_of(const Tensor& tensor);
  void merge_uneven_shards();
  void merge_uneven_shards_of(std::size_t i);
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
  std::string run_id_;                       // of the lowest rank that says one
  std::vector<std::uint64_t> of_other_id_;   // ranks of another run than that
  std::string other_id_;                     // of the first of them
  std::vector<std::uint64_t> of_other_run_;  // ranks that say other meshes than the first
  std::string other_meshes_;
};

}  // namespace ttrace::layout
