#include "compare/resolved_plan.h"

#include <algorithm>

#include "base/error.h"
#include "compare/shard_reader.h"
#include "layout/mesh_map.h"
#include "layout/rows.h"
#include "tensor/decode.h"

namespace ttrace::compare {
namespace {

const trace::Rows* rows_of(const trace::TensorEntry& entry) {
  for (const auto& [axis, placement] : entry.placements) {
    if (const auto* rows = std::get_if<trace::Rows>(&placement)) return rows;
  }
  return nullptr;
}

const trace::TensorEntry& index_entry(const trace::Source& source, const trace::TensorKey& key) {
  for (const trace::TensorEntry& entry : source.manifest().tensors) {
    if (entry.key == key) return entry;
  }
  throw base::input_error(source.path(), ": there is no tensor ", to_string(key));
}

std::vector<std::int64_t> rank_numbers(const trace::Source& source, const trace::TensorEntry& index,
                                       const trace::Mesh& mesh, std::uint64_t rank) {
  const auto held = layout::held_at(index, mesh, layout::coordinates_of(mesh, rank));
  if (!held) throw base::internal_error("rank ", rank, " holds no part of its index");
  std::vector<std::int64_t> numbers(held->dataset_shape()[0]);
  if (numbers.empty()) return numbers;
  ShardReader reader(source, index, rank, *held);
  std::vector<std::byte> bits;
  reader.read_bits(tensor::whole(held->shape), bits);
  tensor::decode_integers(index.dtype, bits, numbers);
  return numbers;
}

}  // namespace

layout::Plan resolved_plan(const trace::Source& source, const trace::TensorEntry& entry) {
  const trace::Mesh& mesh = source.manifest().meshes.at(entry.mesh);
  const trace::Rows* rows = rows_of(entry);
  if (rows == nullptr) return layout::plan_layout(entry, mesh);
  const trace::TensorEntry& index = index_entry(source, layout::index_key(entry.key, rows->index));
  try {
    return layout::plan_layout(
        entry, mesh, [&](std::uint64_t rank) { return rank_numbers(source, index, mesh, rank); });
  } catch (const base::Error& error) {
    throw error.in(base::concat(source.path(), ": ", to_string(entry.key)));
  }
}

}  // namespace ttrace::compare
