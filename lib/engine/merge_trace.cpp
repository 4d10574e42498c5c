#include "engine/merge_trace.h"

#include <algorithm>
#include <bit>

#include "base/error.h"
#include "comparison/pairing.h"
#include "comparison/run_facts.h"
#include "measure/block_reader.h"
#include "measure/cpu/cpu_backend.h"
#include "measure/shard_reader.h"

namespace ttrace::engine {
namespace {

// Elements copied at once: so few that they stay in a core's cache until they are written and
// summed.
constexpr std::uint64_t kMergedSlabElements = std::uint64_t{1} << 18;

bool is_partial(const trace::TensorEntry& entry) {
  return std::any_of(entry.placements.begin(), entry.placements.end(), [](const auto& placement) {
    return std::holds_alternative<trace::Partial>(placement.second);
  });
}

// The entry of the merged tensor: one rank holds it all.
trace::TensorEntry merged_entry(const trace::TensorEntry& entry) {
  trace::TensorEntry merged = entry;
  merged.mesh.clear();
  merged.held_at.clear();
  merged.placements.clear();
  if (is_partial(entry)) {
    merged.dtype = tensor::DType::kFloat64;
    merged.scale = 1;
    merged.computed_in = entry.computed_in.value_or(entry.dtype);
  }
  return merged;
}

class Merger {
 public:
  Merger(const trace::Source& source, trace::Sink& sink) : source_(source), sink_(sink) {}

  // Returns whether replicas differed.
  bool merge(const trace::TensorEntry& entry, const trace::TensorEntry& merged,
             MergeResult& result) {
    const layout::Plan plan = measure::resolved_plan(source_, entry);
    require_readable(entry, plan);
    const std::string path = dataset_path(merged.key);
    sink_.create(path, merged.dtype, merged.shape);
    bool differ = false;
    for (const layout::Block& block : plan.blocks) {
      measure::BlockReader reader(source_, entry, block, plan.combination,
                                  measure::Replicas::all(measure::cpu_backend()));
      for (const layout::PlacedBox& part : block.held.parts)
        write_part(entry, path, part, reader, result);
      for (const measure::ReplicaCheck& check : reader.replica_checks()) {
        differ = differ || !check.all_equal();
      }
    }
    return differ;
  }

 private:
  // Opens all shards before anything is written: if one is missing or has the wrong shape, the
  // tensor is not written at all. Closes them again, since they may be thousands.
  void require_readable(const trace::TensorEntry& entry, const layout::Plan& plan) const {
    for (const layout::Block& block : plan.blocks) {
      const measure::BlockReader reader(source_, entry, block, plan.combination,
                                        measure::Replicas::all(measure::cpu_backend()));
    }
  }

  void write_part(const trace::TensorEntry& entry, const std::string& path,
                  const layout::PlacedBox& part, measure::BlockReader& reader,
                  MergeResult& result) {
    tensor::for_each_sub_box(part.local, kMergedSlabElements, [&](const tensor::Box& local) {
      const std::span<const std::byte> bytes = slab_bytes(entry, reader, local);
      const tensor::Box global =
          tensor::shifted(tensor::relative_to(local, part.local.origin), part.global.origin);
      sink_.write(path, global, bytes);
      result.bytes += bytes.size();
    });
  }

  std::span<const std::byte> slab_bytes(const trace::TensorEntry& entry,
                                        measure::BlockReader& reader, const tensor::Box& slab) {
    if (!is_partial(entry)) return reader.read_bits(slab);
    values_.resize(tensor::volume(slab));
    reader.read(slab, values_);
    return std::as_bytes(std::span(values_));
  }

  const trace::Source& source_;
  trace::Sink& sink_;
  std::vector<double> values_;
};

}  // namespace

MergeResult merge_trace(const trace::Source& source, const comparison::Selection& selection,
                        trace::Sink& sink) {
  comparison::require_sound_layouts(source);
  std::vector<trace::TensorKey> keys;
  for (const trace::TensorEntry& entry : source.manifest().tensors) keys.push_back(entry.key);
  comparison::require_matches(selection, keys);

  MergeResult result;
  trace::Manifest manifest = source.manifest();
  manifest.meshes = {{"", {}}};
  manifest.tensors.clear();
  Merger merger(source, sink);
  for (const layout::ViewPtr& view : comparison::tensors_of(source.manifest())) {
    const trace::TensorEntry& entry = *layout::stored_in(*view).front();
    if (!selection.selects(entry.key)) continue;
    trace::TensorEntry merged = merged_entry(entry);
    try {
      if (merger.merge(entry, merged, result)) {
        result.warnings.push_back(
            base::concat(source.path(), ": ", to_string(entry.key),
                         ": copies that should be equal differ; the first was written, `ttrace "
                         "compare` tells which agree"));
      }
    } catch (const base::InputError& error) {
      result.left_out.emplace_back(error.what());
      continue;
    }
    manifest.tensors.push_back(std::move(merged));
    ++result.tensors;
  }
  sink.finish(manifest);
  return result;
}

}  // namespace ttrace::engine
