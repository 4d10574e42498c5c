#include "support/memory_trace.h"

#include <cstring>

#include "base/error.h"
#include "layout/mesh.h"
#include "layout/plan.h"
#include "measure/shard_reader.h"

namespace ttrace::test {
namespace {

template <typename T>
std::vector<std::byte> encode_as(const std::vector<double>& values) {
  std::vector<std::byte> bits(values.size() * sizeof(T));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const T value = static_cast<T>(values[i]);
    std::memcpy(bits.data() + i * sizeof(T), &value, sizeof(T));
  }
  return bits;
}

// The dataset of a rank that holds `held` of the tensor `values`; padding is -1.
std::vector<double> shard_of(const tensor::Shape& shape, const std::vector<double>& values,
                             const layout::LocalLayout& held) {
  const std::uint64_t first = held.range ? held.range->start : 0;
  std::vector<double> shard(tensor::element_count(held.dataset_shape()).value(), -1);
  for (const layout::PlacedBox& part : held.parts) {
    for (std::uint64_t i = 0; i < tensor::volume(part.local); ++i) {
      const std::uint64_t at =
          tensor::position(held.shape, tensor::coordinates(part.local, i)) - first;
      shard.at(at) = values.at(tensor::position(shape, tensor::coordinates(part.global, i)));
    }
  }
  return shard;
}

}  // namespace

class MemoryDataset : public trace::Dataset {
 public:
  explicit MemoryDataset(std::shared_ptr<const MemoryTrace::Stored> stored)
      : stored_(std::move(stored)) {}

  const trace::DatasetFacts& facts() const override { return stored_->facts; }
  void read(const tensor::Box& box, std::span<std::byte> out) const override {
    tensor::copy_common(tensor::whole(stored_->facts.shape), stored_->bits, box, out,
                        tensor::element_bytes(stored_->facts.dtype));
  }

 private:
  std::shared_ptr<const MemoryTrace::Stored> stored_;
};

MemoryTrace::MemoryTrace(trace::Mesh mesh, std::string path) : path_(std::move(path)) {
  manifest_.meshes.emplace("", std::move(mesh));
}

void MemoryTrace::put_bits(const trace::TensorKey& key, std::uint64_t rank, tensor::DType dtype,
                           const tensor::Shape& shape, std::vector<std::byte> bits) {
  datasets_[{rank, trace::dataset_path(key)}] =
      std::make_shared<Stored>(Stored{{dtype, shape}, std::move(bits)});
}

void MemoryTrace::put(const trace::TensorEntry& entry, const std::vector<double>& values) {
  manifest_.tensors.push_back(entry);
  const layout::Plan plan = measure::resolved_plan(*this, entry);
  for (const layout::Block& block : plan.blocks) {
    const std::vector<double> shard = shard_of(entry.shape, values, block.held);
    for (std::size_t term = 0; term < block.terms.size(); ++term) {
      const std::vector<double> part = term == 0 ? shard : std::vector<double>(shard.size(), 0.0);
      for (const std::uint64_t rank : block.terms[term].ranks) {
        put_bits(entry.key, rank, entry.dtype, block.held.dataset_shape(),
                 encode(entry.dtype, part));
      }
    }
  }
}

void MemoryTrace::put_shard(const trace::TensorEntry& entry, std::uint64_t rank,
                            const std::vector<double>& values) {
  const trace::Mesh& mesh = manifest_.meshes.at(entry.mesh);
  const auto held = layout::local_layout(entry, mesh, layout::coordinates_of(mesh, rank));
  put_bits(entry.key, rank, entry.dtype, held.value().dataset_shape(), encode(entry.dtype, values));
}

std::string MemoryTrace::rank_file(std::uint64_t rank) const {
  return base::concat(path_, "/rank_", rank);
}

std::optional<std::string> MemoryTrace::rank_problem(std::uint64_t rank) const {
  const auto found = lost_.find(rank);
  if (found == lost_.end()) return std::nullopt;
  return found->second;
}

std::unique_ptr<trace::Dataset> MemoryTrace::open(std::uint64_t rank,
                                                  const std::string& dataset) const {
  const auto found = datasets_.find({rank, dataset});
  if (found == datasets_.end()) {
    throw base::input_error(rank_file(rank), ": ", dataset, ": there is no such dataset");
  }
  return std::make_unique<MemoryDataset>(found->second);
}

trace::TensorKey make_key(const std::string& name, trace::Kind kind, std::uint64_t step) {
  trace::TensorKey key;
  key.name = name;
  key.kind = kind;
  key.step = step;
  return key;
}

trace::TensorEntry make_entry(const std::string& name, tensor::Shape shape, trace::Kind kind,
                              tensor::DType dtype) {
  trace::TensorEntry entry;
  entry.key = make_key(name, kind);
  entry.shape = std::move(shape);
  entry.dtype = dtype;
  return entry;
}

trace::Mesh make_mesh(std::vector<trace::MeshAxis> axes) {
  trace::Mesh mesh;
  mesh.axes = std::move(axes);
  return mesh;
}

std::vector<std::byte> encode(tensor::DType dtype, const std::vector<double>& values) {
  switch (dtype) {
    case tensor::DType::kFloat64:
      return encode_as<double>(values);
    case tensor::DType::kFloat32:
      return encode_as<float>(values);
    case tensor::DType::kInt64:
      return encode_as<std::int64_t>(values);
    default:
      throw base::internal_error("tests encode float64, float32 and int64 only");
  }
}

}  // namespace ttrace::test
