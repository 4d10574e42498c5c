#include "memory_run.h"

#include <utility>

#include "base/error.h"
#include "measure/shard_reader.h"
#include "tensor/box.h"

namespace ttrace::library {

// Boxes are copied as from a file, into a buffer of the reading thread that stays in its cache.
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

// Boxes are copied from the device to the host, unless a backend reads them where they are.
class MemoryRun::OnDevice : public trace::Dataset {
 public:
  OnDevice(const Stored& stored, const Devices& devices) : stored_(&stored), devices_(&devices) {}

  const trace::DatasetFacts& facts() const override { return stored_->facts; }
  void read(const tensor::Box& box, std::span<std::byte> out) const override {
    const tensor::Shape& shape = stored_->facts.shape;
    const auto count = tensor::element_count(shape).value_or(0);
    measure::read_flat_box(Elements(*this), shape, {0, count}, box, out);
  }
  std::optional<trace::DeviceMemory> device_memory() const override {
    return trace::DeviceMemory{*stored_->device, stored_->bits};
  }

 private:
  // The elements one after the other.
  class Elements : public trace::Dataset {
   public:
    explicit Elements(const OnDevice& all) : all_(&all) {}

    const trace::DatasetFacts& facts() const override { return all_->facts(); }
    void read(const tensor::Box& range, std::span<std::byte> out) const override {
      const std::size_t width = tensor::element_bytes(facts().dtype);
      const Stored& stored = *all_->stored_;
      all_->devices_->fetch(*stored.device,
                            stored.bits.subspan(range.origin[0] * width, out.size()), out);
    }

   private:
    const OnDevice* all_;
  };

  const Stored* stored_;
  const Devices* devices_;
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

// Returns the device in whose memory the tensor lies; nothing for the host's.
std::optional<std::uint32_t> device_of(const ttrace_tensor& tensor, const Devices& devices) {
  if (tensor.device_type == TTRACE_CPU || tensor.device_type == TTRACE_CUDA_HOST) return {};
  if (tensor.device_type == TTRACE_CUDA) {
    devices.require_memory(tensor);
    return static_cast<std::uint32_t>(tensor.device_id);
  }
  throw base::input_error("it is on a device of type ", tensor.device_type,
                          ", which this library does not read; copy it to the CPU first");
}

}  // namespace

MemoryRun::MemoryRun(const ttrace_run& run, const std::string& role, bool perturbed,
                     const Devices& devices)
    : devices_(devices), path_(run.label == nullptr ? role : run.label) {
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
  const std::optional<std::uint32_t> device = device_of(tensor, devices_);
  const auto* data = static_cast<const std::byte*>(tensor.data);
  const bool fresh = datasets_
                         .emplace(trace::dataset_path(entry.key),
                                  Stored{{entry.dtype, entry.shape}, {data, *bytes}, device})
                         .second;
  if (!fresh) throw base::input_error("another one of this kind has the same name");
  identity_ += base::concat(reinterpret_cast<std::uintptr_t>(data), " ");
  manifest_.tensors.push_back(std::move(entry));
}

std::unique_ptr<trace::Dataset> MemoryRun::open(std::uint64_t, const std::string& dataset) const {
  const auto found = datasets_.find(dataset);
  if (found == datasets_.end()) throw base::input_error(path_, ": there is no ", dataset);
  if (found->second.device) return std::make_unique<OnDevice>(found->second, devices_);
  return std::make_unique<InMemory>(found->second);
}

}  // namespace ttrace::library
