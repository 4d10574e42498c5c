#include <algorithm>
#include <iostream>
#include <memory>
#include <optional>

#include "base/error.h"
#include "base/files.h"
#include "base/text.h"
#include "command.h"
#include "flags/answer.h"
#include "flags/execution.h"
#include "flags/flag_group.h"
#include "machine.h"
#include "outputs.h"
#include "synth/dataset.h"
#include "synth/fault.h"
#include "synth/make_trace.h"
#include "synth/recipe.h"
#include "tensor/dtype.h"
#include "trace/hdf5/trace_files.h"
#include "trace/hdf5/writer.h"

namespace ttrace::app {
namespace {

struct SynthFlags {
  std::string output;
  std::string spec;
  std::optional<std::uint64_t> seed;
  double noise = 0;
  double relative_noise = 0;
  std::uint64_t noise_seed = 1;
  std::vector<std::string> faults;
  bool manifest_only = false;
  unsigned threads = 0;
  // The single group that is described by flags instead of a file.
  std::uint64_t tensors = 1;
  std::string name = "tensor.{i}";
  std::string kind = "param";
  bool adamw = false;
  std::string shape;
  std::string dtype = "float32";
  std::vector<std::string> mesh;
  std::vector<std::string> places;
  std::string chunk;
  std::optional<unsigned> deflate;
  bool shuffle = false;
  bool sparse = false;
};

template <typename Parsed>
Parsed known(const std::optional<Parsed>& parsed, const char* flag, const std::string& given) {
  if (!parsed) {
    throw base::usage_error(flag, " ", base::printable(given), ": unknown value; ",
                            "schemas/trace-v2.md lists them");
  }
  return *parsed;
}

synth::Recipe recipe_of_flags(const SynthFlags& flags) {
  synth::Group group;
  group.entry.key.name = flags.name;
  group.entry.key.kind = known(trace::parse_kind(flags.kind), "--kind", flags.kind);
  group.entry.dtype = known(tensor::parse_dtype(flags.dtype), "--dtype", flags.dtype);
  group.entry.shape = synth::parse_shape(flags.shape);
  group.count = flags.tensors;
  group.storage.chunk = synth::parse_shape(flags.chunk);
  for (const std::uint64_t extent : group.storage.chunk) {
    if (extent == 0) throw base::usage_error("--chunk ", flags.chunk, ": has no elements");
  }
  group.storage.deflate = flags.deflate;
  group.storage.shuffle = flags.shuffle;
  group.storage.sparse = flags.sparse;
  synth::Recipe recipe;
  trace::Mesh& mesh = recipe.meshes[""] = synth::parse_mesh(flags.mesh);
  synth::parse_placements(flags.places, mesh, group);
  recipe.groups.push_back(std::move(group));
  if (flags.adamw) synth::add_adamw_step(recipe);
  return recipe;
}

bool is_file(const SynthFlags& flags) { return flags.output.ends_with(".h5"); }

synth::Request request_of(const SynthFlags& flags) {
  synth::Request request;
  request.recipe = flags.spec.empty()
                       ? recipe_of_flags(flags)
                       : synth::parse_recipe(base::read_text(flags.spec), flags.spec);
  if (flags.seed) request.recipe.seed = *flags.seed;
  synth::check_recipe(request.recipe);
  if (is_file(flags)) request.recipe = synth::on_one_rank(request.recipe);
  request.noise = {flags.noise, true, flags.noise_seed};
  if (flags.relative_noise > 0) request.noise = {flags.relative_noise, false, flags.noise_seed};
  for (const std::string& fault : flags.faults) {
    request.faults.push_back(synth::parse_fault(fault));
  }
  synth::check_faults(request.recipe, request.faults);
  request.run.model = "synthetic";
  request.run.collector = base::concat("ttrace synth ", version());
  // Whole tensors with noise imitate a noise run of the reference.
  if (is_file(flags) && request.noise.size > 0) {
    double unit = request.noise.in_epsilons ? 0 : 1;
    for (const synth::Group& group : request.recipe.groups) {
      if (request.noise.in_epsilons) unit = std::max(unit, tensor::epsilon(group.entry.dtype));
    }
    request.run.noise = trace::NoiseFacts{flags.noise_seed, request.noise.size * unit, "*"};
  }
  request.threads = execution_context(flags.threads).thread_count();
  return request;
}

bool fills_no_disk(const synth::Recipe& recipe) {
  for (const synth::Group& group : recipe.groups) {
    if (group.storage.sparse || group.storage.deflate) return true;
  }
  return false;
}

void check_room(const SynthFlags& flags, const synth::Recipe& recipe) {
  const auto bytes = synth::stored_bytes(recipe);
  if (!bytes) {
    throw base::input_error(flags.output, ": the size in bytes of all shards overflows 64 bits");
  }
  if (!fills_no_disk(recipe)) require_room(flags.output, *bytes);
}

synth::Made fill(const NewFolder& folder, const SynthFlags& flags, const synth::Request& request) {
  synth::Made made;
  if (!flags.manifest_only) {
    made = synth::make_trace(request, [&folder](std::uint64_t rank) {
      return trace::hdf5::create_file(folder.file(trace::hdf5::rank_file_name(rank)),
                                      base::Existing::kKept, rank, base::SyncedBy::kFolder);
    });
  }
  const trace::Manifest manifest = synth::manifest_of(request);
  OutputFile(folder.file("manifest.json")).store(trace::manifest_text(manifest));
  made.tensors = manifest.tensors.size();
  return made;
}

synth::Made make(const SynthFlags& flags, const synth::Request& request) {
  if (is_file(flags)) {
    return synth::make_trace(request, [&flags](std::uint64_t) {
      return trace::hdf5::create_file(flags.output, base::Existing::kKept);
    });
  }
  NewFolder folder(flags.output);
  try {
    const synth::Made made = fill(folder, flags, request);
    folder.put_in_place();
    return made;
  } catch (const base::Error& error) {
    throw folder.named(error);
  }
}

int run_synth(const SynthFlags& flags) {
  require_absent(flags.output);
  if (flags.manifest_only && is_file(flags)) {
    throw base::usage_error("--manifest-only: ", flags.output, " would be a single file; ",
                            "the manifest of a run is in a directory");
  }
  const synth::Request request = request_of(flags);
  if (!flags.manifest_only) check_room(flags, request.recipe);
  const synth::Made made = make(flags, request);
  std::cout << "WROTE  " << base::plural(made.tensors, "tensor");
  if (flags.manifest_only) {
    std::cout << " in a manifest";
  } else {
    if (!is_file(flags)) std::cout << " over " << base::plural(made.ranks, "rank");
    std::cout << " (" << base::human_bytes(made.bytes) << ")";
  }
  std::cout << " into " << base::printable(flags.output) << "\n";
  for (const std::string& fault : flags.faults) {
    std::cout << "  fault  " << base::printable(fault) << "\n";
  }
  return 0;
}

void add_what(const FlagGroup& made, SynthFlags& flags) {
  auto* spec = made.value("--spec FILE", flags.spec,
                          "the tensors and meshes as JSON (schemas/synth-v1.md), in the place of "
                          "the flags from --tensors to --sparse");
  auto* tensors = made.value("--tensors N", flags.tensors, "how many")
                      ->check(CLI::Range(std::uint64_t{1}, synth::kMostTensors));
  auto* shape = made.value("--shape NxN", flags.shape, "of each, as in 4096x1024");
  auto* kind = made.value("--kind KIND", flags.kind, "param, output, main_grad, ...");
  for (CLI::Option* flag :
       {tensors, shape, kind, made.value("--name NAME", flags.name, "{i} is the tensor's number"),
        made.value("--dtype DTYPE", flags.dtype, "float32, bfloat16, float8_e4m3fn, int32, ..."),
        made.value("--mesh AXES", flags.mesh, "axes of the ranks, as in dp=2,tp=8")->delimiter(','),
        made.value("--place PLACES", flags.places,
                   "how tensors lie along an axis, as in tp=shard:1,dp=partial; also replicate, "
                   "zigzag:DIM, strided:DIM:STRIDE, flat, only:K, stages")
            ->delimiter(','),
        made.value("--chunk NxN", flags.chunk, "chunks of this shape, as in 64x1024"),
        made.value("--deflate LEVEL", flags.deflate, "compress, level 0 to 9")
            ->check(CLI::Range(0U, 9U)),
        made.flag("--shuffle", flags.shuffle, "HDF5's shuffle filter"),
        made.flag("--adamw", flags.adamw,
                  "a step of AdamW on these parameters: gradients, states and what it makes")
            ->excludes(kind),
        made.flag("--sparse", flags.sparse, "zeros that are not written and take no disk")}) {
    flag->excludes(spec);
  }
}

}  // namespace

void add_synth_command(CLI::App& app, Action& action) {
  CLI::App* command =
      app.add_subcommand("synth", "make traces for tests and benchmarks, healthy or with faults");
  const auto flags = std::make_shared<SynthFlags>();
  add_output_flag(*command, flags->output,
                  "NAME.h5: a reference in one file; else a directory of ranks")
      ->required();
  const FlagGroup made(*command, kMade);
  add_what(made, *flags);
  made.value("--seed N", flags->seed, "other values (default: the spec's, or 0)");
  auto* noise = made.value("--noise SIZE", flags->noise,
                           "multiply every value by 1 + SIZE·ε·u before it is rounded, u in "
                           "[-1, 1), ε that of its dtype");
  noise->check(CLI::Range(0.0, 1e30));
  made.value("--relative-noise SIZE", flags->relative_noise, "the same without ε")
      ->check(CLI::Range(0.0, 1e30))
      ->excludes(noise);
  made.value("--noise-seed N", flags->noise_seed, "another noise of the same size");
  made.value("--fault FAULT", flags->faults,
             "plant one, as in scaled=1.01@NAME, nan@KIND/NAME (repeatable): scaled, "
             "shards_swapped, part_dropped, row_zeroed, stale, rounded_to_bf16, nan, "
             "key_missing; rank_missing=RANK");
  made.flag("--manifest-only", flags->manifest_only, "manifest.json and no rank files");
  add_threads_flag(*command, flags->threads);
  command->footer("Exit codes: 0 written, 2 usage, or output that cannot be written.");
  command->callback([flags, &action] { action = [flags] { return run_synth(*flags); }; });
}

}  // namespace ttrace::app
