#include <nlohmann/json.hpp>

#include "trace/manifest.h"

namespace ttrace::trace {
namespace {

using json = nlohmann::ordered_json;

json recorded_json(const Recorded& recorded) {
  json kinds = json::array();
  for (const Kind kind : recorded.kinds) kinds.push_back(kind_name(kind));
  json out{{"kinds", std::move(kinds)}};
  if (recorded.modules) out["modules"] = *recorded.modules;
  out["steps"] = recorded.steps;
  return out;
}

json run_json(const RunFacts& run) {
  json out = json::object();
  const auto put = [&out](const char* key, const std::string& value) {
    if (!value.empty()) out[key] = value;
  };
  put("id", run.id);
  put("framework", run.framework);
  put("model", run.model);
  put("precision", run.precision);
  put("command", run.command);
  put("created", run.created);
  put("collector", run.collector);
  if (run.products.matmul) out["products"]["matmul"] = dtype_name(*run.products.matmul);
  if (run.products.convolution) {
    out["products"]["convolution"] = dtype_name(*run.products.convolution);
  }
  if (run.noise) {
    out["noise"] = {
        {"seed", run.noise->seed}, {"epsilon", run.noise->epsilon}, {"at", run.noise->at}};
  }
  if (run.plan) out["plan"] = {{"digest", run.plan->digest}, {"modules", run.plan->modules}};
  if (run.recorded) out["recorded"] = recorded_json(*run.recorded);
  if (run.updates_before) out["updates_before"] = *run.updates_before;
  for (const auto& [step, names] : run.rewritten) {
    out["rewritten"].push_back({{"step", step}, {"params", names}});
  }
  if (!run.unfinished.empty()) out["unfinished"] = run.unfinished;
  for (const Incomplete& one : run.incomplete) {
    out["incomplete"].push_back(
        {{"tensors", one.tensors}, {"ranks", one.ranks}, {"reason", one.reason}});
  }
  if (!run.extra_json.empty()) out["extra"] = json::parse(run.extra_json);
  return out;
}

json mesh_json(const Mesh& mesh) {
  json axes = json::array();
  for (const MeshAxis& axis : mesh.axes) axes.push_back({{"name", axis.name}, {"size", axis.size}});
  json out{{"axes", std::move(axes)}};
  if (mesh.ranks.empty()) {
    out["ranks"] = "row-major";
  } else {
    out["ranks"] = mesh.ranks;
  }
  return out;
}

json microbatches_json(const Microbatches& whole) {
  switch (whole.how) {
    case Microbatches::How::kSum:
      return {{"sum", whole.numbers}};
    case Microbatches::How::kMean:
      return {{"mean", whole.numbers}};
    case Microbatches::How::kShard:
      break;
  }
  return {{"shard", whole.dim}, {"of", whole.numbers}};
}

json tensor_json(const TensorEntry& entry) {
  json out{{"name", entry.key.name}, {"kind", kind_name(entry.key.kind)}, {"step", entry.key.step}};
  if (entry.key.microbatch) out["microbatch"] = *entry.key.microbatch;
  if (entry.microbatches) out["microbatches"] = microbatches_json(*entry.microbatches);
  if (entry.key.call != 0) out["call"] = entry.key.call;
  if (entry.key.copy != 0) out["copy"] = entry.key.copy;
  out["dtype"] = tensor::dtype_name(entry.dtype);
  out["shape"] = entry.shape;
  if (entry.complex) out["complex"] = true;
  if (!entry.mesh.empty()) out["mesh"] = entry.mesh;
  if (!entry.held_at.empty()) out["held_at"] = entry.held_at;
  if (!entry.placements.empty()) {
    json placements = json::object();
    for (const auto& [axis, placement] : entry.placements) {
      placements[axis] = json::parse(json_text(placement));
    }
    out["placements"] = std::move(placements);
  }
  if (entry.scale != 1) out["scale"] = entry.scale;
  if (entry.computed_in) out["computed_in"] = tensor::dtype_name(*entry.computed_in);
  if (entry.order) out["order"] = *entry.order;
  if (entry.position) out["position"] = *entry.position;
  if (!entry.absent_on->empty()) out["absent_on"] = *entry.absent_on;
  return out;
}

json optimizer_json(const OptimizerGroup& group) {
  json out{{"step", group.step}, {"type", group.type}};
  for (const auto& [key, value] : group.numbers) {
    // A count of updates written as 1.0 would be refused when it is read back.
    if (key == "updates") {
      out[key] = static_cast<std::uint64_t>(value);
    } else {
      out[key] = value;
    }
  }
  for (const auto& [key, value] : group.switches) out[key] = value;
  if (!group.betas.empty()) out["betas"] = group.betas;
  if (!group.clipped_by.empty()) out["clipped_by"] = group.clipped_by;
  if (!group.params.empty()) out["params"] = group.params;
  return out;
}

json module_json(const Module& module) {
  json out{{"name", module.name}};
  if (!module.class_name.empty()) out["class"] = module.class_name;
  if (!module.op.empty()) out["op"] = module.op;
  if (!module.called_at.empty()) out["called_at"] = module.called_at;
  if (!module.params.empty()) out["params"] = module.params;
  if (!module.inputs.empty()) out["inputs"] = module.inputs;
  if (module.computed_from) out["computed_from"] = *module.computed_from;
  if (module.outputs) out["outputs"] = *module.outputs;
  if (!module.via.empty()) out["via"] = module.via;
  if (!module.computed_via.empty()) out["computed_via"] = module.computed_via;
  if (!module.implementation.empty()) out["implementation"] = module.implementation;
  return out;
}

template <typename Item, typename ToJson>
std::string lines(const std::vector<Item>& items, ToJson to_json) {
  std::string text = "[";
  for (std::size_t i = 0; i < items.size(); ++i) {
    text += i == 0 ? "\n" : ",\n";
    text += "    " + json(to_json(items[i])).dump();
  }
  return text + (items.empty() ? "]" : "\n  ]");
}

}  // namespace

std::string manifest_text(const Manifest& manifest) {
  json meshes = json::object();
  for (const auto& [name, mesh] : manifest.meshes) meshes[name] = mesh_json(mesh);
  std::string text = "{\n  \"schema\": " + json(kManifestSchema).dump();
  text += ",\n  \"run\": " + run_json(manifest.run).dump();
  text += ",\n  \"meshes\": " + meshes.dump();
  text += ",\n  \"tensors\": " + lines(manifest.tensors, tensor_json);
  if (!manifest.optimizer.empty()) {
    text += ",\n  \"optimizer\": " + lines(manifest.optimizer, optimizer_json);
  }
  if (!manifest.modules.empty()) {
    text += ",\n  \"modules\": " + lines(manifest.modules, module_json);
  }
  return text + "\n}\n";
}

}  // namespace ttrace::trace
