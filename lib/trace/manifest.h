// The manifest of a trace: meshes, tensors with their layouts, the data flow. schemas/trace-v2.md
// has the meaning of every member.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/heap_optional.h"
#include "base/shared_map.h"
#include "base/shared_value.h"
#include "tensor/box.h"
#include "tensor/dtype.h"
#include "trace/key.h"
#include "trace/placement.h"

namespace ttrace::trace {

// Limits that real runs never reach. Larger numbers are a mistake or an attack and are refused
// before memory is taken for them. base/files.h has the limit of texts.
inline constexpr std::uint64_t kMostRanks = std::uint64_t{1} << 20;
inline constexpr std::uint64_t kMostAxes = 64;  // of a mesh

inline constexpr const char* kManifestSchema = "ttrace.manifest/2";

struct NoiseFacts {
  std::uint64_t seed = 0;
  double epsilon = 0;
  std::string at;
};

// A run whose inputs and gradients a plan has overwritten: schemas/plan-v1.md.
struct PlanFacts {
  std::string digest;                // 64 hexadecimal digits
  std::vector<std::string> modules;  // names and globs, as the plan gives them

  bool operator==(const PlanFacts&) const = default;
};

// What the collector was asked to record. Other tensors were not recorded, and are not missing.
struct Recorded {
  std::vector<Kind> kinds;
  // Globs over canonical module names: of these alone values and own parameters were recorded.
  // Absent: of all.
  std::optional<std::vector<std::string>> modules;
  std::vector<std::uint64_t> steps;  // those that were recorded to their end, ascending

  bool operator==(const Recorded&) const = default;
};

// Tensors that were to be recorded and were not, or not by all ranks that hold them.
struct Incomplete {
  std::string tensors;               // glob over the ids of tensors (`id_of`)
  std::vector<std::uint64_t> ranks;  // that did not record them, ascending
  std::string reason;

  bool operator==(const Incomplete&) const = default;
};

// The type to which a device rounds the factors of float32 products, where that is another one.
struct ProductFacts {
  std::optional<tensor::DType> matmul;
  std::optional<tensor::DType> convolution;

  bool any() const { return matmul || convolution; }
};

struct RunFacts {
  std::string id;  // another one for every run of a job; empty where nothing says it
  std::string framework;
  std::string model;
  std::string precision;
  std::string command;
  std::string created;
  std::string collector;
  ProductFacts products;
  std::optional<NoiseFacts> noise;
  std::optional<PlanFacts> plan;
  std::optional<Recorded> recorded;
  // How many updates its process had made when the first recorded step began.
  std::optional<std::uint64_t> updates_before;
  // By step: the parameters that the job changed by hand.
  std::map<std::uint64_t, std::set<std::string>> rewritten;
  std::vector<std::uint64_t> unfinished;  // ranks that did not close their files, ascending
  std::vector<Incomplete> incomplete;
  std::string extra_json;  // the "extra" object as text, or empty
};

struct MeshAxis {
  std::string name;
  std::uint64_t size = 1;

  bool operator==(const MeshAxis&) const = default;
};

struct Mesh {
  std::vector<MeshAxis> axes;
  std::vector<std::uint64_t> ranks;  // row-major order of the coordinates; empty: 0, 1, 2, ...

  bool operator==(const Mesh&) const = default;
};

// A tensor that stands for several micro-batches: their sum, their mean, or all of them one after
// the other along dimension `dim`.
struct Microbatches {
  enum class How { kSum, kMean, kShard };

  How how = How::kSum;
  std::uint64_t dim = 0;
  std::vector<std::uint64_t> numbers;

  bool operator==(const Microbatches&) const = default;
};

// By the name of a mesh axis. Equal layouts of a manifest's entries lie in memory once.
using HeldAt = base::SharedMap<std::string, std::vector<std::uint64_t>>;
using Placements = base::SharedMap<std::string, Placement>;

struct TensorEntry {
  TensorKey key;
  base::HeapOptional<Microbatches> microbatches;
  tensor::DType dtype = tensor::DType::kFloat32;
  // Whether its numbers are complex: real and imaginary part lie along the last dimension.
  bool complex = false;
  tensor::Shape shape;
  std::string mesh;
  HeldAt held_at;
  Placements placements;
  double scale = 1;
  std::optional<tensor::DType> computed_in;
  std::optional<std::uint64_t> order;
  // For a module's value that is named after an argument ("attn[mask]"): its number among the
  // module's tensors, 0 for the first.
  std::optional<std::uint64_t> position = std::nullopt;
  // Ranks that should have a shard by the layout, ran to the step's end and recorded none,
  // ascending.
  base::SharedValue<std::vector<std::uint64_t>> absent_on = {};
};

struct OptimizerGroup {
  std::uint64_t step = 0;
  std::string type;
  std::map<std::string, double> numbers;  // lr, momentum, eps, ...
  std::map<std::string, bool> switches;   // nesterov, maximize, amsgrad, skipped
  std::vector<double> betas;
  std::vector<std::string> params;
  // Name of the gradient norm that gradients are clipped by; empty if that is of all gradients.
  std::string clipped_by = {};
};

struct Module {
  std::string name;
  std::string class_name;
  std::string op;
  std::string called_at;
  std::vector<std::string> params;
  std::vector<std::string> inputs;
  std::optional<std::vector<std::string>> computed_from;  // absent: the inputs
  std::optional<std::vector<std::string>> outputs;        // absent: the module's name
  std::vector<std::string> via = {};           // operations on the way from the inputs' values
  std::vector<std::string> computed_via = {};  // the same for computed_from
  // Which of several ways it computes in, by what it computes: "attention" → "eager".
  std::map<std::string, std::string> implementation = {};
};

struct Manifest {
  RunFacts run;
  std::map<std::string, Mesh> meshes;
  std::vector<TensorEntry> tensors;
  std::vector<OptimizerGroup> optimizer;
  std::vector<Module> modules;
};

// Parses a manifest and checks what can be checked member by member: schema, keys, types, names,
// axes and dimensions that exist, no tensor key twice. `file` is named in errors. layout_problems
// checks that shard sizes add up.
Manifest parse_manifest(std::string_view text, const std::string& file);

// The inverse of parse_manifest: deterministic, one tensor and one module per line.
std::string manifest_text(const Manifest& manifest);

// The entry of `run.incomplete` that names a tensor of this key, or null.
const Incomplete* incomplete_of(const Manifest& manifest, const TensorKey& key);

// Whether the collector was asked to record a tensor of this key, by `run.recorded`: its kind, its
// step, and its module (the one that a value is named after, the one that owns a parameter).
// Nothing where the manifest has no `run.recorded`.
std::optional<bool> was_asked_for(const Manifest& manifest, const TensorKey& key);

}  // namespace ttrace::trace
