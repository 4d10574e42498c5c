#include <cmath>
#include <optional>

#include "base/strict_json.h"
#include "base/text.h"
#include "synth/recipe.h"
#include "trace/layout_json.h"

namespace ttrace::synth {
namespace {

using base::JsonCursor;

double finite_from(const JsonCursor& value) {
  const double number = value.as_number();
  if (!std::isfinite(number)) throw value.error("expected a finite number");
  return number;
}

void read_key(const JsonCursor& object, trace::TensorKey& key) {
  key.name = object.require("name").as_string();
  key.kind = trace::kind_from(object.require("kind"));
  if (const auto step = object.find("step")) key.step = step->as_count();
  const auto microbatch = object.find("microbatch");
  if (microbatch && !microbatch->is_null()) key.microbatch = microbatch->as_count();
  if (const auto call = object.find("call")) key.call = call->as_count();
  if (const auto copy = object.find("copy")) key.copy = copy->as_count();
}

void read_layout(const JsonCursor& object, const trace::Mesh& mesh, Group& group) {
  trace::read_layout(object, mesh, group.entry);
  if (const auto stages = object.find("stages")) {
    group.stages = stages->as_string();
    group.stage_count = 0;
    for (const trace::MeshAxis& axis : mesh.axes) {
      if (axis.name == group.stages) group.stage_count = axis.size;
    }
    if (group.stage_count == 0) {
      throw stages->error("the mesh has no axis \"", base::printable(group.stages), "\"");
    }
  }
}

void read_values(const JsonCursor& object, Group& group) {
  trace::TensorEntry& entry = group.entry;
  if (const auto mean = object.find("mean")) group.mean = finite_from(*mean);
  if (const auto std_dev = object.find("std")) {
    group.std_dev = finite_from(*std_dev);
    if (group.std_dev < 0) throw std_dev->error("a negative standard deviation");
  }
  if (const auto scale = object.find("scale")) {
    entry.scale = finite_from(*scale);
    if (entry.scale == 0) throw scale->error("nothing can be stored for a scale of 0");
    if (entry.scale != 1 && !tensor::is_floating(entry.dtype)) {
      throw scale->error("a scale on ", tensor::dtype_name(entry.dtype),
                         "; only floating-point tensors are scaled");
    }
  }
  if (const auto computed_in = object.find("computed_in")) {
    entry.computed_in = trace::precision_from(*computed_in);
  }
}

void read_storage(const JsonCursor& object, trace::Storage& storage) {
  if (const auto chunk = object.find("chunk")) {
    storage.chunk = chunk->as_counts();
    for (const std::uint64_t extent : storage.chunk) {
      if (extent == 0) throw chunk->error("a chunk without elements");
    }
  }
  if (const auto deflate = object.find("deflate")) {
    const std::uint64_t level = deflate->as_count();
    if (level > 9) throw deflate->error("level ", level, ", but the levels are 0 to 9");
    storage.deflate = static_cast<unsigned>(level);
  }
  if (const auto shuffle = object.find("shuffle")) storage.shuffle = shuffle->as_bool();
  if (const auto sparse = object.find("sparse")) storage.sparse = sparse->as_bool();
}

Group group_from(const JsonCursor& object, const Recipe& recipe) {
  object.allow_keys({"name",        "count", "kind", "step",    "microbatch", "call",    "copy",
                     "dtype",       "shape", "mesh", "held_at", "placements", "stages",  "scale",
                     "computed_in", "mean",  "std",  "chunk",   "deflate",    "shuffle", "sparse"});
  Group group;
  read_key(object, group.entry.key);
  if (const auto count = object.find("count")) {
    group.count = count->as_count();
    if (group.count == 0) throw count->error("no tensors");
    if (group.count > kMostTensors) throw count->error("more than ", kMostTensors, " tensors");
  }
  group.entry.dtype = trace::dtype_from(object.require("dtype"));
  group.entry.shape = trace::shape_from(object.require("shape"), group.entry.dtype);
  read_layout(object, trace::find_mesh(object, recipe.meshes, group.entry.mesh), group);
  read_values(object, group);
  read_storage(object, group.storage);
  return group;
}

}  // namespace

Recipe parse_recipe(std::string_view text, const std::string& file) {
  const base::JsonDocument document(text, file);
  const JsonCursor root = document.root();
  root.require("schema").require_format(kRecipeSchema);
  root.allow_keys({"schema", "seed", "meshes", "tensors"});
  Recipe recipe;
  recipe.file = file;
  if (const auto seed = root.find("seed")) recipe.seed = seed->as_count();
  if (const auto meshes = root.find("meshes")) {
    for (const auto& [name, object] : meshes->members()) {
      recipe.meshes.emplace(name, trace::mesh_from(object));
    }
  }
  recipe.meshes.try_emplace("");  // one rank
  for (const JsonCursor& object : root.require("tensors").items()) {
    recipe.groups.push_back(group_from(object, recipe));
  }
  return recipe;
}

}  // namespace ttrace::synth
