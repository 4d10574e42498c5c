#include <algorithm>
#include <cmath>
#include <deque>
#include <functional>
#include <map>
#include <set>
#include <unordered_set>

#include "base/bytes.h"
#include "base/strict_json.h"
#include "trace/layout_json.h"
#include "trace/manifest.h"

namespace ttrace::trace {
namespace {

using base::JsonCursor;

constexpr std::size_t kLongestPattern = 1024;
constexpr std::uint64_t kMostUpdates = std::uint64_t{1} << 53;  // kept as a double

std::string optional_string(const JsonCursor& object, std::string_view key) {
  const auto found = object.find(key);
  return found ? found->as_string() : "";
}

std::vector<std::string> names(const JsonCursor& list) {
  std::vector<std::string> values;
  for (const JsonCursor& item : list.items()) {
    values.push_back(item.as_string());
    if (const auto problem = name_problem(values.back())) throw item.error(*problem);
  }
  return values;
}

std::vector<std::string> optional_names(const JsonCursor& object, std::string_view key) {
  const auto found = object.find(key);
  return found ? names(*found) : std::vector<std::string>{};
}

std::optional<std::vector<std::string>> names_if_present(const JsonCursor& object,
                                                         std::string_view key) {
  const auto found = object.find(key);
  if (!found) return std::nullopt;
  return names(*found);
}

PlanFacts plan_from(const JsonCursor& object) {
  object.allow_keys({"digest", "modules"});
  const JsonCursor digest = object.require("digest");
  PlanFacts plan{digest.as_string(), names(object.require("modules"))};
  if (plan.digest.size() != 64 ||
      plan.digest.find_first_not_of("0123456789abcdef") != std::string::npos) {
    throw digest.error("expected the 64 hexadecimal digits of a SHA-256");
  }
  return plan;
}

// Throws if the numbers do not ascend, for instance if one stands twice.
std::vector<std::uint64_t> ascending(const JsonCursor& list) {
  std::vector<std::uint64_t> values = list.as_counts();
  for (std::size_t i = 1; i < values.size(); ++i) {
    if (values[i - 1] < values[i]) continue;
    throw list.error(values[i], " stands after ", values[i - 1], "; expected ascending numbers");
  }
  return values;
}

Recorded recorded_from(const JsonCursor& object) {
  object.allow_keys({"kinds", "modules", "steps"});
  Recorded recorded;
  for (const JsonCursor& item : object.require("kinds").items()) {
    recorded.kinds.push_back(kind_from(item));
  }
  recorded.modules = names_if_present(object, "modules");
  recorded.steps = ascending(object.require("steps"));
  return recorded;
}

std::vector<Incomplete> incomplete_from(const JsonCursor& list) {
  std::vector<Incomplete> incomplete;
  for (const JsonCursor& object : list.items()) {
    object.allow_keys({"tensors", "ranks", "reason"});
    const JsonCursor tensors = object.require("tensors");
    if (tensors.as_string().size() > kLongestPattern) {
      throw tensors.error("a pattern longer than ", kLongestPattern, " bytes");
    }
    incomplete.push_back({tensors.as_string(), ascending(object.require("ranks")),
                          object.require("reason").as_string()});
  }
  return incomplete;
}

ProductFacts products_from(const JsonCursor& object) {
  object.allow_keys({"matmul", "convolution"});
  const auto type_of = [&](std::string_view name) -> std::optional<tensor::DType> {
    const auto given = object.find(name);
    if (!given) return std::nullopt;
    const tensor::DType dtype = precision_from(*given);
    if (dtype == tensor::DType::kTensorFloat32) return dtype;
    throw given->error("factors of float32 are rounded to \"tf32\" or not at all, found \"",
                       tensor::dtype_name(dtype), "\"");
  };
  return {type_of("matmul"), type_of("convolution")};
}

std::map<std::uint64_t, std::set<std::string>> rewritten_from(const JsonCursor& list) {
  std::map<std::uint64_t, std::set<std::string>> rewritten;
  for (const JsonCursor& object : list.items()) {
    object.allow_keys({"step", "params"});
    const JsonCursor step = object.require("step");
    const std::vector<std::string> names = optional_names(object, "params");
    if (!rewritten.emplace(step.as_count(), std::set(names.begin(), names.end())).second) {
      throw step.error("an earlier entry has this step");
    }
  }
  return rewritten;
}

RunFacts run_from(const JsonCursor& object) {
  object.allow_keys({"id", "framework", "model", "precision", "command", "created", "collector",
                     "products", "noise", "plan", "recorded", "updates_before", "rewritten",
                     "unfinished", "incomplete", "extra"});
  RunFacts run;
  run.id = optional_string(object, "id");
  run.framework = optional_string(object, "framework");
  run.model = optional_string(object, "model");
  run.precision = optional_string(object, "precision");
  run.command = optional_string(object, "command");
  run.created = optional_string(object, "created");
  run.collector = optional_string(object, "collector");
  if (const auto products = object.find("products")) run.products = products_from(*products);
  if (const auto noise = object.find("noise")) {
    noise->allow_keys({"seed", "epsilon", "at"});
    const JsonCursor epsilon = noise->require("epsilon");
    if (!(epsilon.as_number() > 0)) throw epsilon.error("expected a number above 0");
    run.noise = NoiseFacts{noise->require("seed").as_count(), epsilon.as_number(),
                           noise->require("at").as_string()};
  }
  if (const auto plan = object.find("plan")) run.plan = plan_from(*plan);
  if (const auto recorded = object.find("recorded")) run.recorded = recorded_from(*recorded);
  if (const auto count = object.find("updates_before")) run.updates_before = count->as_count();
  if (const auto list = object.find("rewritten")) run.rewritten = rewritten_from(*list);
  if (const auto ranks = object.find("unfinished")) run.unfinished = ascending(*ranks);
  if (const auto list = object.find("incomplete")) run.incomplete = incomplete_from(*list);
  if (const auto extra = object.find("extra")) {
    extra->members();
    run.extra_json = extra->text();
  }
  return run;
}

Microbatches microbatches_from(const JsonCursor& object, const TensorEntry& entry) {
  object.allow_keys({"sum", "mean", "shard", "of"});
  Microbatches whole;
  std::optional<JsonCursor> list;
  if (const auto shard = object.find("shard")) {
    object.allow_keys({"shard", "of"});
    whole.how = Microbatches::How::kShard;
    whole.dim = shard->as_count();
    if (whole.dim >= entry.shape.size()) {
      throw shard->error("dimension ", whole.dim, ", but the tensor's shape is ",
                         tensor::to_string(entry.shape));
    }
    list = object.require("of");
  } else {
    const bool mean = object.find("mean").has_value();
    object.allow_keys({mean ? "mean" : "sum"});
    whole.how = mean ? Microbatches::How::kMean : Microbatches::How::kSum;
    list = object.require(mean ? "mean" : "sum");
    if (!tensor::is_floating(entry.dtype) && mean) {
      throw list->error("mean of ", tensor::dtype_name(entry.dtype));
    }
  }
  whole.numbers = list->as_counts();
  if (whole.numbers.empty()) throw list->error("expected at least one micro-batch");
  std::vector<std::uint64_t> sorted = whole.numbers;
  std::sort(sorted.begin(), sorted.end());
  const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
  if (twice != sorted.end()) throw list->error("micro-batch ", *twice, " stands twice");
  if (entry.key.microbatch) {
    throw object.error("a tensor of micro-batch ", *entry.key.microbatch,
                       " cannot stand for several; leave out \"microbatch\"");
  }
  return whole;
}

TensorEntry tensor_from(const JsonCursor& object, const std::map<std::string, Mesh>& meshes) {
  object.allow_keys({"name", "kind", "step", "microbatch", "microbatches", "call", "copy", "dtype",
                     "shape", "mesh", "held_at", "placements", "scale", "computed_in", "order",
                     "position", "absent_on", "complex"});
  TensorEntry entry;
  const JsonCursor name = object.require("name");
  entry.key.name = name.as_string();
  if (const auto problem = name_problem(entry.key.name)) throw name.error(*problem);
  entry.key.kind = kind_from(object.require("kind"));
  entry.key.step = object.require("step").as_count();
  const auto microbatch = object.find("microbatch");
  if (microbatch && !microbatch->is_null()) entry.key.microbatch = microbatch->as_count();
  if (const auto call = object.find("call")) entry.key.call = call->as_count();
  if (const auto copy = object.find("copy")) entry.key.copy = copy->as_count();
  entry.dtype = dtype_from(object.require("dtype"));
  entry.shape = shape_from(object.require("shape"), entry.dtype);
  if (const auto complex = object.find("complex")) {
    entry.complex = complex->as_bool();
    const bool has_parts = !entry.shape.empty() && entry.shape.back() == 2;
    if (entry.complex && (!has_parts || !tensor::is_floating(entry.dtype))) {
      throw complex->error("complex numbers are floating-point numbers whose last dimension is 2");
    }
  }
  if (const auto whole = object.find("microbatches")) {
    entry.microbatches = microbatches_from(*whole, entry);
  }
  read_layout(object, find_mesh(object, meshes, entry.mesh), entry);
  if (const auto scale = object.find("scale")) {
    entry.scale = scale->as_number();
    if (!std::isfinite(entry.scale)) throw scale->error("the scale is not finite");
    if (entry.scale != 1 && !tensor::is_floating(entry.dtype)) {
      throw scale->error("a scale on ", tensor::dtype_name(entry.dtype),
                         "; only floating-point tensors are scaled");
    }
  }
  if (const auto computed_in = object.find("computed_in")) {
    entry.computed_in = precision_from(*computed_in);
  }
  if (const auto order = object.find("order")) entry.order = order->as_count();
  if (const auto position = object.find("position")) entry.position = position->as_count();
  if (const auto ranks = object.find("absent_on")) entry.absent_on = ascending(*ranks);
  return entry;
}

// Lets entries of equal layouts share them. Compares with the layouts that came last, since those
// of one step and micro-batch follow each other and have few.
class LayoutPool {
 public:
  void share(TensorEntry& entry) {
    share(held_at_, entry.held_at);
    share(placements_, entry.placements);
  }

 private:
  static constexpr std::size_t kMostKept = 32;

  template <typename Map>
  static void share(std::deque<Map>& kept, Map& map) {
    if (map.empty()) return;
    const auto known = std::find(kept.begin(), kept.end(), map);
    if (known != kept.end()) {
      map = *known;
      return;
    }
    kept.push_front(map);
    if (kept.size() > kMostKept) kept.pop_back();
  }

  std::deque<HeldAt> held_at_;
  std::deque<Placements> placements_;
};

// Which keys a list of entries has.
class KeysSeen {
 public:
  explicit KeysSeen(const std::vector<TensorEntry>& entries)
      : entries_(entries), seen_(entries.capacity(), Hash{entries}, Equal{entries}) {}

  // Adds the key of the last entry. Returns the entry that has it already, if there is one.
  std::optional<std::size_t> add_last() {
    const auto [known, fresh] = seen_.insert(entries_.size() - 1);
    if (fresh) return std::nullopt;
    return *known;
  }

 private:
  struct Hash {
    const std::vector<TensorEntry>& entries;

    std::size_t operator()(std::size_t entry) const {
      const TensorKey& key = entries[entry].key;
      std::size_t hash = std::hash<std::string_view>{}(key.name);
      for (const std::uint64_t number :
           {key.step, key.microbatch.value_or(0), static_cast<std::uint64_t>(key.kind), key.call}) {
        hash = hash * 31 + number;
      }
      return hash;
    }
  };
  struct Equal {
    const std::vector<TensorEntry>& entries;

    bool operator()(std::size_t a, std::size_t b) const { return entries[a].key == entries[b].key; }
  };

  const std::vector<TensorEntry>& entries_;
  std::unordered_set<std::size_t, Hash, Equal> seen_;
};

OptimizerGroup optimizer_from(const JsonCursor& object) {
  object.allow_keys({"step", "type", "lr", "momentum", "dampening", "nesterov", "maximize", "betas",
                     "eps", "amsgrad", "weight_decay", "updates", "clip_norm", "clipped_by",
                     "skipped", "params"});
  OptimizerGroup group;
  group.step = object.require("step").as_count();
  group.type = object.require("type").as_string();
  for (const char* key : {"lr", "momentum", "dampening", "eps", "weight_decay", "clip_norm"}) {
    if (const auto value = object.find(key)) group.numbers.emplace(key, value->as_number());
  }
  if (const auto updates = object.find("updates")) {
    const std::uint64_t count = updates->as_count();
    if (count > kMostUpdates) throw updates->error(count, " updates, at most 2^53 are possible");
    group.numbers.emplace("updates", static_cast<double>(count));
  }
  for (const char* key : {"nesterov", "maximize", "amsgrad", "skipped"}) {
    if (const auto value = object.find(key)) group.switches.emplace(key, value->as_bool());
  }
  if (const auto betas = object.find("betas")) {
    for (const JsonCursor& item : betas->items()) group.betas.push_back(item.as_number());
    if (group.betas.size() != 2) throw betas->error("expected two numbers");
  }
  if (const auto norm = object.find("clipped_by")) {
    group.clipped_by = norm->as_string();
    if (const auto problem = name_problem(group.clipped_by)) throw norm->error(*problem);
  }
  group.params = optional_names(object, "params");
  return group;
}

Module module_from(const JsonCursor& object) {
  object.allow_keys({"name", "class", "op", "called_at", "params", "inputs", "computed_from",
                     "outputs", "via", "computed_via", "implementation"});
  Module module;
  const JsonCursor name = object.require("name");
  module.name = name.as_string();
  if (const auto problem = name_problem(module.name)) throw name.error(*problem);
  module.class_name = optional_string(object, "class");
  module.op = optional_string(object, "op");
  module.called_at = optional_string(object, "called_at");
  module.params = optional_names(object, "params");
  module.inputs = optional_names(object, "inputs");
  module.computed_from = names_if_present(object, "computed_from");
  module.outputs = names_if_present(object, "outputs");
  module.via = optional_names(object, "via");
  module.computed_via = optional_names(object, "computed_via");
  if (const auto implementation = object.find("implementation")) {
    for (const auto& [aspect, value] : implementation->members()) {
      module.implementation.emplace(aspect, value.as_string());
    }
  }
  return module;
}

}  // namespace

Manifest parse_manifest(std::string_view text, const std::string& file) {
  const base::JsonDocument document(text, file);
  const JsonCursor root = document.root();
  // The version first: a later version may have other keys, and that is the better message.
  root.require("schema").require_format(
      kManifestSchema, "record again, with the collector that belongs to this ttrace");
  Manifest manifest;
  root.allow_keys({"schema", "run", "meshes", "tensors", "optimizer", "modules"});

  if (const auto run = root.find("run")) manifest.run = run_from(*run);
  const JsonCursor meshes = root.require("meshes");
  for (const auto& [name, object] : meshes.members()) {
    manifest.meshes.emplace(name, mesh_from(object));
  }
  if (!manifest.meshes.contains("")) throw meshes.error("the default mesh \"\" is missing");

  const std::vector<JsonCursor> tensors = root.require("tensors").items();
  manifest.tensors.reserve(tensors.size());
  KeysSeen seen(manifest.tensors);
  LayoutPool layouts;
  for (const JsonCursor& object : tensors) {
    TensorEntry& entry = manifest.tensors.emplace_back(tensor_from(object, manifest.meshes));
    layouts.share(entry);
    if (const auto earlier = seen.add_last()) {
      throw object.error("the same key as ", tensors[*earlier].pointer(), ": ",
                         to_string(entry.key));
    }
  }
  if (const auto optimizer = root.find("optimizer")) {
    for (const JsonCursor& object : optimizer->items()) {
      manifest.optimizer.push_back(optimizer_from(object));
    }
  }
  if (const auto modules = root.find("modules")) {
    std::set<std::string> known;
    for (const JsonCursor& object : modules->items()) {
      manifest.modules.push_back(module_from(object));
      if (!known.insert(manifest.modules.back().name).second) {
        throw object.error("the module \"", manifest.modules.back().name, "\" stands twice");
      }
    }
  }
  return manifest;
}

}  // namespace ttrace::trace
