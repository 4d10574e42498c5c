#include "support/memory_sink.h"

#include "base/error.h"

namespace ttrace::test {

void MemorySink::create(const std::string& dataset, tensor::DType dtype, const tensor::Shape& shape,
                        const trace::Storage&) {
  Stored stored{{dtype, shape}, std::vector<std::byte>(tensor::byte_count(shape, dtype).value())};
  if (finished_ || !datasets_.emplace(dataset, std::move(stored)).second) {
    throw base::internal_error(dataset, ": created twice or too late");
  }
}

void MemorySink::write(const std::string& dataset, const tensor::Box& box,
                       std::span<const std::byte> bytes) {
  const auto found = datasets_.find(dataset);
  if (finished_ || found == datasets_.end()) {
    throw base::internal_error(dataset, ": written before it was created or too late");
  }
  Stored& stored = found->second;
  const tensor::Box whole = tensor::whole(stored.facts.shape);
  const std::size_t element = tensor::element_bytes(stored.facts.dtype);
  if (tensor::intersect(whole, box) != box || bytes.size() != tensor::volume(box) * element) {
    throw base::internal_error(dataset, ": ", tensor::to_string(box), " of ", bytes.size(),
                               " bytes does not fit ", tensor::to_string(stored.facts.shape));
  }
  tensor::copy_common(box, bytes, whole, stored.bits, element);
  stored.written += tensor::volume(box);
}

void MemorySink::finish(const trace::Manifest& manifest) {
  if (finished_) throw base::internal_error("finished twice");
  finished_ = true;
  trace_.edit() = manifest;
  for (const trace::TensorEntry& entry : manifest.tensors) {
    const Stored& stored = datasets_.at(dataset_path(entry.key));
    trace_.put_bits(entry.key, 0, stored.facts.dtype, stored.facts.shape, stored.bits);
  }
}

}  // namespace ttrace::test
