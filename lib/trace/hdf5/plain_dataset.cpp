#include "trace/hdf5/plain_dataset.h"

#include "base/error.h"
#include "trace/hdf5/file.h"

namespace ttrace::trace::hdf5 {

PlainDataset::PlainDataset(std::shared_ptr<const File> file, std::string path, PlainHeader header,
                           const OpenFile& opened)
    : file_(std::move(file)),
      path_(std::move(path)),
      facts_(std::move(header.facts)),
      opened_(opened),
      raw_{opened.descriptor, header.offset, header.bytes} {}

void PlainDataset::read(const tensor::Box& box, std::span<std::byte> out) const {
  const std::size_t element_bytes = tensor::element_bytes(facts_.dtype);
  if (out.size() != tensor::volume(box) * element_bytes) {
    throw base::internal_error("reading ", tensor::to_string(box), " into ", out.size(), " bytes");
  }
  if (out.empty()) return;
  const std::string what = file_->path() + ": " + path_;
  raw_.read_box(facts_.shape, element_bytes, box, out, what);
  opened_.require_unchanged(what);
}

}  // namespace ttrace::trace::hdf5
