// The description of a synthetic trace (schemas/synth-v1.md, or flags of the command line), and the
// faults that are planted into it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "trace/manifest.h"
#include "trace/sink.h"

namespace ttrace::synth {

// Tensors that differ only in their names.
struct Group {
  trace::TensorEntry entry;  // its name has {i} in place of the tensor's number
  std::uint64_t count = 1;
  std::string stages;  // the mesh axis whose coordinates hold consecutive tensors each; or empty
  std::uint64_t stage_count = 1;  // size of that axis
  double mean = 0;
  double std_dev = 1;
  trace::Storage storage;  // the chunk is clipped to the shard

  // The entry of tensor `number`, without its execution order.
  trace::TensorEntry entry_of(std::uint64_t number) const;
  // The number of the first tensor at coordinate `stage` of the axis `stages`.
  std::uint64_t first_at(std::uint64_t stage) const;
};

struct Recipe {
  std::string file;  // the file it comes from, for messages; empty: the command line
  std::uint64_t seed = 0;
  std::map<std::string, trace::Mesh> meshes;
  std::vector<Group> groups;
  // The optimizer of all parameters, if there is one: `param_after_step` has the values that it
  // makes, and the state exp_avg_sq has squares.
  std::optional<trace::OptimizerGroup> optimizer = {};

  std::uint64_t tensors() const;
};

inline constexpr std::string_view kRecipeSchema = "ttrace.synth/1";
inline constexpr std::uint64_t kMostTensors = std::uint64_t{1} << 24;

// Reads a recipe. Checks each member by itself; check_recipe() checks the rest. `file` is used in
// messages.
Recipe parse_recipe(std::string_view text, const std::string& file);

// Throws an input error naming the group if layouts are inconsistent, two tensors have the same
// key, a name is invalid, a size overflows, or an index has too many rows for its type.
void check_recipe(const Recipe& recipe);

// The recipe of the reference: the same tensors, whole, on one rank. Leaves out index tensors that
// a placement names, because they are layout.
Recipe on_one_rank(const Recipe& recipe);

// The manifest, with the tensors in the order of the groups, which is the execution order.
trace::Manifest manifest_of(const Recipe& recipe);

// Replaces the only group, of parameters, by the tensors of a step of AdamW: the parameters, their
// gradients and both states, and the updated parameters.
void add_adamw_step(Recipe& recipe);

// The optimizer's entries of a manifest, with the names of its parameters.
std::vector<trace::OptimizerGroup> optimizer_of(const Recipe& recipe);

// The functions below parse flags of the command line. They throw a usage error that shows the
// word.

// "4096x4096", "7"; "" has no dimensions.
tensor::Shape parse_shape(std::string_view word);

// "tp=8", "dp=2", ...: the axes of one mesh, the slowest first.
trace::Mesh parse_mesh(const std::vector<std::string>& words);

// "tp=shard:1", "dp=partial:mean", "pp=stages", ...: sets the placements of a group, whose shape
// must be set. Takes all words at once, because "flat" evenly cuts what the other axes leave.
void parse_placements(const std::vector<std::string>& words, const trace::Mesh& mesh, Group& group);

}  // namespace ttrace::synth
