#include <cmath>
#include <optional>

#include "base/strict_json.h"
#include "base/text.h"
#include "synth/recipe.h"
#include "trace/layout_json.h"

namespace ttrace::synth {
namespace {

using base::JsonCursor;

std::vector<std::uint64_t> counts(const JsonCursor& list) {
  std::vector<std::uint64_t> values;
  for (const JsonCursor& item : list.items()) values.push_back(item.as_count());
  return values;
}

tensor::DType dtype_from(const JsonCursor& value) {
  const std::string name = value.as_string();
  const auto dtype = tensor::parse_dtype(name);
  if (!dtype) throw value.error("unknown dtype \"", base::printable(name), "\"");
  return *dtype;
}

double finite_from(const JsonCursor& value) {
  const double number = value.as_number();
  if (!std::isfinite(number)) throw value.error("expected a finite number");
  return number;
}

void read_key(const JsonCursor& object, trace::TensorKey& key) {
  key.name = object.require("name").as_string();
  const JsonCursor kind = object.require("kind");
  const auto parsed = trace::parse_kind(kind.as_string());
  if (!parsed) throw kind.error("unknown kind \"", base::printable(kind.as_string()), "\"");
  key.kind = *parsed;
  if (const auto step = object.find("step")) key.step = step->as_count();
  const auto microbatch = object.find("microbatch");
  if (microbatch && !microbatch->is_null()) key.microbatch = microbatch->as_count();
  if (const auto call = object.find("call")) key.call = call->as_count();
  if (const auto copy = object.find("copy")) key.copy = copy->as_count();
}

const trace::Mesh& read_mesh(const JsonCursor& object, const Recipe& recipe,
                             trace::TensorEntry& entry) {
  const auto name = object.find("mesh");
  if (name) entry.mesh = name->as_string();
  const auto mesh = recipe.meshes.find(entry.mesh);
  if (mesh == recipe.meshes.end()) {
    throw name.value_or(object).error("there is no mesh \"", base::printable(entry.mesh), "\"");
  }
  return mesh->second;
}

void read_layout(const JsonCursor& object, const trace::Mesh& mesh, Group& group) {
  trace::TensorEntry& entry = group.entry;
  if (const auto held_at = object.find("held_at")) {
    for (const auto& [axis, list] : held_at->members()) {
      entry.held_at.emplace(axis, trace::held_coordinates_from(list, axis, mesh));
    }
  }
  if (const auto placements = object.find("placements")) {
    for (const auto& [axis, value] : placements->members()) {
      trace::Placement placement = trace::placement_from(value);
      trace::check_placement(placement, axis, entry, mesh, value);
      entry.placements.emplace(axis, std::move(placement));
    }
  }
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
    entry.computed_in = dtype_from(*computed_in);
  }
}

void read_storage(const JsonCursor& object, trace::Storage& storage) {
  if (const auto chunk = object.find("chunk")) {
    storage.chunk = counts(*chunk);
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
  group.entry.dtype = dtype_from(object.require("dtype"));
  const JsonCursor shape = object.require("shape");
  group.entry.shape = counts(shape);
  if (group.entry.shape.size() > tensor::kMostDimensions) {
    throw shape.error(group.entry.shape.size(), " dimensions, at most ", tensor::kMostDimensions,
                      " are possible");
  }
  const trace::Mesh& mesh = read_mesh(object, recipe, group.entry);
  read_layout(object, mesh, group);
  read_values(object, group);
  read_storage(object, group.storage);
  return group;
}

}  // namespace

Recipe parse_recipe(std::string_view text, const std::string& file) {
  const base::JsonDocument document(text, file);
  const JsonCursor root = document.root();
  const JsonCursor schema = root.require("schema");
  if (schema.as_string() != kRecipeSchema) {
    throw schema.error("this is \"", base::printable(schema.as_string()), "\", expected \"",
                       kRecipeSchema, "\"");
  }
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
