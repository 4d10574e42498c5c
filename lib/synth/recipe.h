// What a synthetic trace consists of, before any of it is made: schemas/synth-v1.md as values.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "trace/manifest.h"
#include "trace/sink.h"

namespace ttrace::synth {

// Tensors that are alike but for their names.
struct Group {
  trace::TensorEntry entry;  // its name has {i} in the place of the tensor's number
  std::uint64_t count = 1;
  std::string stages;  // the mesh axis over whose coordinates they are dealt out in order; or empty
  std::uint64_t stage_count = 1;  // size of that axis
  double mean = 0;
  double std_dev = 1;
  trace::Storage storage;  // the chunk is cut down to the shard

  // The entry of tensor `number`, without its execution order.
  trace::TensorEntry entry_of(std::uint64_t number) const;
  // Those at a coordinate of the axis `stages`: from this number to that of the next coordinate.
  std::uint64_t first_at(std::uint64_t stage) const;
};

struct Recipe {
  std::string file;  // that it was read from, for messages; empty: the command line
  std::uint64_t seed = 0;
  std::map<std::string, trace::Mesh> meshes;
  std::vector<Group> groups;

  std::uint64_t tensors() const;
};

inline constexpr std::string_view kRecipeSchema = "ttrace.synth/1";
inline constexpr std::uint64_t kMostTensors = std::uint64_t{1} << 24;

// Refuses what can be refused member by member. `file` is named in errors.
Recipe parse_recipe(std::string_view text, const std::string& file);

// Throws an input error naming the group if layouts contradict themselves, two tensors have the
// same key, a name is none, a size overflows, or an index has too many rows for its type.
void check_recipe(const Recipe& recipe);

// The same tensors whole, on one rank: what the reference of the run is made from. Index tensors
// that a placement names are left out: they are layout.
Recipe on_one_rank(const Recipe& recipe);

// With the tensors in groups' order, which is the order of execution.
trace::Manifest manifest_of(const Recipe& recipe);

// Recipes in the words of a command line.

// "4096x4096", "7"; "" has no dimension. All of these throw a usage error that shows the word.
tensor::Shape parse_shape(std::string_view word);

// "tp=8", "dp=2", ...: axes of one mesh, the first the slowest.
trace::Mesh parse_mesh(const std::vector<std::string>& words);

// "tp=shard:1", "dp=partial:mean", "pp=stages", ... for a group whose shape is known: what lies how
// along which axis of `mesh`. "flat" cuts evenly what the other axes leave, so all words come at
// once.
void parse_placements(const std::vector<std::string>& words, const trace::Mesh& mesh, Group& group);

}  // namespace ttrace::synth
