#include "memory_run.h"

#include <utility>

#include "base/error.h"
#include "tensor/box.h"

namespace ttrace::library {

// Boxes are copied as a file's would be: into a buffer of the reading thread, which stays in its
// cache.
class MemoryRun::InMemory : public trace::Dataset {
 public:
  explicit InMemory(const Stored& stored) : stored_(&stored) {}

  const trace::DatasetFacts& facts() const override { return stored_->facts; }
  void read(const tensor::Box& box, std::span<std::byte> out) const override {
    tensor::copy_common(tensor::whole(stored_->facts.shape), stored_->bits, box, out,
                        tensor::element_bytes(stored_->facts.dtype));
  }

 private:
  const Stored* stored_;
};

namespace {

tensor::Shape shape_of(const ttrace_tensor& tensor) {
  if (tensor.dims > tensor::kMostDimensions) {
    throw base::input_error("it has ", tensor.dims, " dimensions, more than ",
                            tensor::kMostDimensions);
  }
  if (tensor.dims == 0) return {};
  if (tensor.shape == nullptr) throw base::input_error("its shape is NULL");
  return {tensor.shape, tensor.shape + tensor.dims};
}

tensor::DType dtype_of(const ttrace_tensor& tensor) {
  const std::string name = tensor.dtype == nullptr ? "" : tensor.dtype;
  const auto dtype = tensor::parse_dtype(name);
  if (!dtype) {
    throw base::input_error("there is no dtype \"", base::printable(name),
                            "\"; schemas/trace-v2.md lists them");
  }
  return *dtype;
}

trace::Kind kind_of(const ttrace_tensor& tensor) {
  if (tensor.kind == nullptr) return trace::Kind::kOutput;
  const auto kind = trace::parse_kind(tensor.kind);
  if (!kind) {
    throw base::input_error("there is no kind \"", base::printable(tensor.kind),
                            "\"; schemas/trace-v2.md lists them");
  }
  return *kind;
}

void require_readable(const ttrace_tensor& tensor) {
  if (tensor.device_type == TTRACE_CPU || tensor.device_type == TTRACE_CUDA_HOST) return;
  if (tensor.device_type == TTRACE_CUDA) {
    throw base::input_error("it is on CUDA device ", tensor.device_id,
                            ", which this library does not read; copy it to the CPU first");
  }
  throw base::input_error("it is on a device of type ", tensor.device_type,
                          ", which this library does not read; copy it to the CPU first");
}

}  // namespace

MemoryRun::MemoryRun(const ttrace_run& run, const std::string& role, bool perturbed)
    : path_(run.label == nullptr ? role : run.label) {
  manifest_.meshes.emplace("", trace::Mesh{});
  if (perturbed) manifest_.run.noise = trace::NoiseFacts{run.seed, 0, ""};
  if (run.count > 0 && run.tensors == nullptr) {
    throw base::input_error(role, ": `tensors` is NULL, and `count` is ", run.count);
  }
  for (std::size_t i = 0; i < run.count; ++i) {
    const ttrace_tensor& tensor = run.tensors[i];
    const std::string name = tensor.name == nullptr ? "" : tensor.name;
    try {
      if (const auto problem = trace::name_problem(name)) throw base::input_error(*problem);
      add(tensor, i);
    } catch (const base::InputError& error) {
      throw error.in(base::concat(role, ": tensor ", i, " (\"", base::printable(name), "\")"));
    }
  }
}

void MemoryRun::add(const ttrace_tensor& tensor, std::uint64_t order) {
  trace::TensorEntry entry;
  entry.key.kind = kind_of(tensor);
  entry.key.name = tensor.name;
  entry.dtype = dtype_of(tensor);
  entry.shape = shape_of(tensor);
  entry.order = order;
  const auto bytes = tensor::byte_count(entry.shape, entry.dtype);
  if (!bytes || *bytes > PTRDIFF_MAX) {
    throw base::input_error("its shape ", tensor::to_string(entry.shape), " has too many elements");
  }
  if (*bytes > 0 && tensor.data == nullptr) throw base::input_error("its data is NULL");
  require_readable(tensor);
  const auto* data = static_cast<const std::byte*>(tensor.data);
  const bool fresh = datasets_
                         .emplace(trace::dataset_path(entry.key),
                                  Stored{{entry.dtype, entry.shape}, {data, *bytes}})
                         .second;
  if (!fresh) throw base::input_error("another one of this kind has the same name");
  identity_ += base::concat(reinterpret_cast<std::uintptr_t>(data), " ");
  manifest_.tensors.push_back(std::move(entry));
}

std::unique_ptr<trace::Dataset> MemoryRun::open(std::uint64_t, const std::string& dataset) const {
  const auto found = datasets_.find(dataset);
  if (found == datasets_.end()) throw base::input_error(path_, ": there is no ", dataset);
  return std::make_unique<InMemory>(found->second);
}

}  // namespace ttrace::library
