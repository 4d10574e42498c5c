#include "synth/dataset.h"

#include <algorithm>
#include <utility>

#include "base/bytes.h"
#include "base/error.h"
#include "layout/mesh.h"
#include "tensor/codec.h"
#include "trace/placement.h"

namespace ttrace::synth {
namespace {

const std::string* index_of(const trace::TensorEntry& entry) {
  for (const auto& [axis, placement] : entry.placements) {
    if (const auto* rows = std::get_if<trace::Rows>(&placement)) return &rows->index;
  }
  return nullptr;
}

// The entry as if every coordinate of the stage axis held it.
trace::TensorEntry without_stages(const Group& group) {
  trace::TensorEntry entry = group.entry_of(0);
  if (!group.stages.empty()) entry.held_at.erase(group.stages);
  return entry;
}

std::vector<std::int64_t> index_numbers(const Recipe& recipe, const trace::TensorKey& key,
                                        const std::vector<std::uint64_t>& coordinates) {
  for (const Group& group : recipe.groups) {
    if (group.count != 1 || group.entry_of(0).key != key) continue;
    const trace::TensorEntry entry = group.entry_of(0);
    const auto held = layout::local_layout(entry, recipe.meshes.at(entry.mesh), coordinates);
    std::vector<std::int64_t> numbers;
    const IndexRows rows(recipe.seed, dataset_path(key), entry.shape[0]);
    for (const layout::PlacedBox& part : held.value_or(layout::LocalLayout{}).parts) {
      for (std::uint64_t i = 0; i < part.global.extent[0]; ++i) {
        numbers.push_back(rows.at(part.global.origin[0] + i));
      }
    }
    return numbers;
  }
  throw base::input_error(trace::to_string(key), ": the index is not one tensor of the recipe");
}

bool same_extents(const layout::LocalLayout& a, const layout::LocalLayout& b) {
  return a.dataset_shape() == b.dataset_shape() &&
         std::equal(a.parts.begin(), a.parts.end(), b.parts.begin(), b.parts.end(),
                    [](const layout::PlacedBox& x, const layout::PlacedBox& y) {
                      return x.local == y.local && x.global.extent == y.global.extent;
                    });
}

constexpr std::uint64_t kChunkBytes = std::uint64_t{1} << 20;
constexpr std::uint64_t kLargestChunkExtent = (std::uint64_t{1} << 31) - 1;

std::uint64_t volume_of(const tensor::Shape& extents) {
  return tensor::volume(tensor::whole(extents));
}

// Halves the outer dimensions first, so that rows stay whole if possible.
tensor::Shape automatic_chunk(const tensor::Shape& shape, tensor::DType dtype) {
  tensor::Shape chunk = shape;
  for (std::uint64_t& extent : chunk) {
    while (extent > 1 && volume_of(chunk) * tensor::element_bytes(dtype) > kChunkBytes) {
      extent = (extent + 1) / 2;
    }
  }
  return chunk;
}

}  // namespace

std::optional<layout::LocalLayout> local_layout_of(const Recipe& recipe, const Group& group,
                                                   const std::vector<std::uint64_t>& coordinates) {
  const trace::TensorEntry entry = without_stages(group);
  layout::RowNumbers rows;
  if (const std::string* name = index_of(entry)) {
    const trace::TensorKey key = trace::index_key(entry.key, *name);
    rows = [&, key](std::uint64_t) { return index_numbers(recipe, key, coordinates); };
  }
  return layout::local_layout(entry, recipe.meshes.at(entry.mesh), coordinates, rows);
}

std::optional<std::pair<layout::LocalLayout, layout::LocalLayout>> shards_to_swap(
    const Recipe& recipe, const Group& group) {
  const trace::Mesh& mesh = recipe.meshes.at(group.entry.mesh);
  std::vector<layout::LocalLayout> seen;
  for (std::uint64_t i = 0; i < layout::mesh_size(mesh); ++i) {
    auto held = local_layout_of(recipe, group, layout::coordinates_at(mesh, i));
    if (!held || held->parts.empty()) continue;
    for (const layout::LocalLayout& other : seen) {
      if (other != *held && same_extents(other, *held)) return std::pair{other, *std::move(held)};
    }
    if (std::find(seen.begin(), seen.end(), *held) == seen.end()) seen.push_back(*std::move(held));
  }
  return std::nullopt;
}

std::optional<DroppedTerm> dropped_term(const trace::Mesh& mesh, const trace::TensorEntry& entry) {
  const std::vector<layout::AxisView> views = layout::axis_views(entry, mesh);
  for (std::size_t a = 0; a < views.size(); ++a) {
    const auto* partial = std::get_if<trace::Partial>(views[a].placement);
    if (partial == nullptr || partial->reduction == trace::Reduction::kMax) continue;
    if (views[a].held.size() > 1) return DroppedTerm{a, views[a].held.back()};
  }
  return std::nullopt;
}

std::optional<std::uint64_t> stored_bytes(const Recipe& recipe) {
  std::optional<std::uint64_t> sum = 0;
  const auto add = [&sum](std::uint64_t bytes, std::uint64_t times) {
    const auto product = base::checked_mul(bytes, times);
    sum = sum && product ? base::checked_add(*sum, *product) : std::nullopt;
  };
  for (const Group& group : recipe.groups) {
    const trace::Mesh& mesh = recipe.meshes.at(group.entry.mesh);
    for (std::uint64_t i = 0; i < layout::mesh_size(mesh) && sum; ++i) {
      const std::vector<std::uint64_t> at = layout::coordinates_at(mesh, i);
      std::uint64_t tensors = group.count;
      for (std::size_t a = 0; a < at.size(); ++a) {
        if (mesh.axes[a].name == group.stages) {
          tensors = group.first_at(at[a] + 1) - group.first_at(at[a]);
        }
      }
      const auto held = tensors == 0 ? std::nullopt : local_layout_of(recipe, group, at);
      if (!held) continue;
      const auto bytes = tensor::byte_count(held->dataset_shape(), group.entry.dtype);
      bytes ? add(*bytes, tensors) : sum.reset();
    }
  }
  return sum;
}

RankDataset::RankDataset(const layout::LocalLayout& held, const trace::TensorEntry& entry,
                         Values values, Terms terms, bool dropped)
    : held_(&held),
      dtype_(entry.dtype),
      scale_(entry.scale),
      values_(std::move(values)),
      terms_(std::move(terms)),
      dropped_(dropped) {}

void RankDataset::make(const tensor::Box& box, std::span<std::byte> out) const {
  if (!held_->range) return make_local(box, out);
  const std::uint64_t start = held_->range->start + box.origin[0];
  std::size_t done = 0;
  for (const tensor::Box& local : trace::flat_boxes(held_->shape, start, start + box.extent[0])) {
    const std::size_t bytes = tensor::volume(local) * tensor::element_bytes(dtype_);
    make_local(local, out.subspan(done, bytes));
    done += bytes;
  }
}

void RankDataset::make_local(const tensor::Box& local, std::span<std::byte> out) const {
  thread_local std::vector<std::byte> bytes;
  const std::size_t element = tensor::element_bytes(dtype_);
  for (const layout::PlacedBox& part : held_->parts) {
    const auto common = tensor::intersect(part.local, local);
    if (!common) continue;
    const tensor::Box global =
        tensor::shifted(tensor::relative_to(*common, part.local.origin), part.global.origin);
    if (*common == local) return make_global(global, out);
    bytes.resize(tensor::volume(*common) * element);
    make_global(global, bytes);
    tensor::copy_common(*common, bytes, local, out, element);
  }
}

void RankDataset::make_global(const tensor::Box& global, std::span<std::byte> out) const {
  const std::size_t count = tensor::volume(global);
  if (!tensor::is_floating(dtype_)) {
    thread_local std::vector<std::int64_t> integers;
    integers.resize(count);
    values_.fill_integers(global, integers);
    return tensor::encode_integers(dtype_, integers, out);
  }
  thread_local std::vector<double> values;
  values.resize(count);
  if (dropped_) {
    std::fill(values.begin(), values.end(), 0.0);
    return tensor::encode_floats(dtype_, values, out);
  }
  values_.fill(global, values);
  if (scale_ != 1) {
    for (double& value : values) value /= scale_;
  }
  if (terms_.any()) {
    for (double& value : values) value = tensor::round_to(dtype_, value);
    terms_.split(global, values);
  }
  tensor::encode_floats(dtype_, values, out);
}

trace::Storage storage_for(const trace::Storage& wanted, const tensor::Shape& shape,
                           tensor::DType dtype) {
  trace::Storage storage = wanted;
  storage.chunk.clear();
  const bool filtered = wanted.deflate || wanted.shuffle;
  const bool cut = !wanted.chunk.empty() || filtered;
  if (!cut || shape.empty() || volume_of(shape) == 0) {
    storage.deflate.reset();
    storage.shuffle = false;
    return storage;
  }
  if (wanted.chunk.size() == shape.size()) {
    for (std::size_t d = 0; d < shape.size(); ++d) {
      storage.chunk.push_back(std::min(wanted.chunk[d], shape[d]));
    }
  } else if (!wanted.chunk.empty()) {  // a range of a flattened shard
    storage.chunk = {std::min(volume_of(wanted.chunk), shape[0])};
  } else {
    storage.chunk = automatic_chunk(shape, dtype);
  }
  for (std::uint64_t& extent : storage.chunk) extent = std::min(extent, kLargestChunkExtent);
  return storage;
}

void for_each_write_box(const tensor::Shape& shape, const trace::Storage& storage,
                        std::uint64_t limit, const std::function<void(const tensor::Box&)>& visit) {
  if (storage.chunk.empty()) return tensor::for_each_sub_box(tensor::whole(shape), limit, visit);
  // Combine neighbouring chunks, along the last dimensions first, because those are contiguous.
  tensor::Shape step = storage.chunk;
  for (std::size_t d = step.size(); d-- > 0;) {
    const std::uint64_t others = volume_of(step) / step[d];
    const std::uint64_t chunks = std::max<std::uint64_t>(limit / others / storage.chunk[d], 1);
    const std::uint64_t needed = (shape[d] - 1) / storage.chunk[d] + 1;
    step[d] = storage.chunk[d] * std::min(chunks, needed);
    if (chunks < needed) break;
  }
  tensor::Shape grid;
  for (std::size_t d = 0; d < shape.size(); ++d) grid.push_back((shape[d] - 1) / step[d] + 1);
  tensor::for_each_sub_box(tensor::whole(grid), 1, [&](const tensor::Box& cell) {
    tensor::Box box = cell;
    for (std::size_t d = 0; d < shape.size(); ++d) {
      box.origin[d] = cell.origin[d] * step[d];
      box.extent[d] = std::min(step[d], shape[d] - box.origin[d]);
    }
    visit(box);
  });
}

}  // namespace ttrace::synth
