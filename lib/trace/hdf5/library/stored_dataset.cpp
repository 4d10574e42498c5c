#include "trace/hdf5/library/stored_dataset.h"

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "trace/hdf5/direct/object_header.h"
#include "trace/hdf5/library/checked_driver.h"
#include "trace/hdf5/library/datatype.h"
#include "trace/hdf5/library/library.h"

namespace ttrace::trace::hdf5 {

Handle select_box(hid_t space, const tensor::Box& box) {
  if (box.extent.empty()) return {H5Screate(H5S_SCALAR), H5Sclose};
  const std::vector<hsize_t> origin(box.origin.begin(), box.origin.end());
  const std::vector<hsize_t> extent(box.extent.begin(), box.extent.end());
  H5Sselect_hyperslab(space, H5S_SELECT_SET, origin.data(), nullptr, extent.data(), nullptr);
  return {H5Screate_simple(static_cast<int>(extent.size()), extent.data(), nullptr), H5Sclose};
}

namespace {

tensor::Shape shape_of(hid_t object, const std::string& what) {
  const Handle space(H5Dget_space(object), H5Sclose);
  const H5S_class_t kind = H5Sget_simple_extent_type(space.get());
  if (kind == H5S_SCALAR) return {};
  if (kind != H5S_SIMPLE) {
    throw base::input_error(what, ": the dataset has no shape (null dataspace)");
  }
  const int rank = H5Sget_simple_extent_ndims(space.get());
  std::vector<hsize_t> extents(static_cast<std::size_t>(std::max(rank, 0)));
  H5Sget_simple_extent_dims(space.get(), extents.data(), nullptr);
  return {extents.begin(), extents.end()};
}

std::uint64_t chunks_of(hid_t creation, const tensor::Shape& shape) {
  std::vector<hsize_t> chunk(shape.size());
  H5Pget_chunk(creation, static_cast<int>(chunk.size()), chunk.data());
  std::uint64_t count = 1;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    count *= shape[d] / chunk[d] + (shape[d] % chunk[d] != 0 ? 1 : 0);
  }
  return count;
}

// Elements that were never written read as zeros: the trace of a job that died would look like
// data, and a small file could claim terabytes of it.
void require_written(hid_t object, hid_t creation, const DatasetFacts& facts,
                     const std::string& what) {
  const auto bytes = tensor::byte_count(facts.shape, facts.dtype);
  if (bytes && *bytes == 0) return;
  if (H5Pget_layout(creation) == H5D_CHUNKED) {
    const Handle space(H5Dget_space(object), H5Sclose);
    hsize_t written = 0;
    if (H5Dget_num_chunks(object, space.get(), &written) < 0) {
      throw base::input_error(what, ": its chunks cannot be counted (",
                              base::printable(last_error()), "); the file may be damaged");
    }
    const std::uint64_t chunks = chunks_of(creation, facts.shape);
    if (written == chunks) return;
    throw base::input_error(what, ": ", written, " of ", chunks,
                            " chunks were written; was the job killed while it wrote?");
  }
  if (!bytes || H5Dget_storage_size(object) < *bytes) {
    throw base::input_error(what, ": the dataset was created but its ",
                            tensor::to_string(facts.shape),
                            " elements were never written; was the job killed while it wrote?");
  }
}

// The attribute repeats the element type. If they disagree, a bug wrote the file.
void check_dtype_attribute(hid_t object, tensor::DType dtype, const std::string& what) {
  const auto attribute = read_attribute(object, "ttrace_dtype", what);
  if (!attribute) return;
  const auto* text = std::get_if<std::string>(&*attribute);
  const std::string value = text == nullptr ? "" : text->substr(0, 64);
  if (value != tensor::dtype_name(dtype)) {
    throw base::input_error(what, ": the attribute ttrace_dtype says \"", base::printable(value),
                            "\", the dataset's type is ", tensor::dtype_name(dtype));
  }
}

}  // namespace

void require_plain_storage(hid_t creation, const std::string& what) {
  if (H5Pget_external_count(creation) > 0) {
    throw base::input_error(what,
                            ": the data lies in external files, which a trace may not contain");
  }
  if (H5Pget_layout(creation) == H5D_VIRTUAL) {
    throw base::input_error(what, ": a virtual dataset, which a trace may not contain");
  }
  for (int i = 0; i < H5Pget_nfilters(creation); ++i) {
    unsigned flags = 0;
    std::size_t values = 0;
    const H5Z_filter_t filter = H5Pget_filter2(creation, static_cast<unsigned>(i), &flags, &values,
                                               nullptr, 0, nullptr, nullptr);
    if (filter != H5Z_FILTER_DEFLATE && filter != H5Z_FILTER_SHUFFLE &&
        filter != H5Z_FILTER_FLETCHER32) {
      throw base::input_error(what, ": HDF5 filter ", filter,
                              " is not allowed; use deflate, shuffle or none");
    }
  }
}

StoredDataset::StoredDataset(std::string file, const std::string& path, Handle object,
                             const std::optional<OpenFile>& opened)
    : file_(std::move(file)),
      what_(file_ + ": " + path),
      object_(std::move(object)),
      opened_(opened) {
  const LibraryLock lock;
  type_ = Handle(H5Dget_type(object_.get()), H5Tclose);
  const auto dtype = recognise_datatype(type_.get());
  if (!dtype) {
    throw base::input_error(what_,
                            ": the element type is none of the trace format's (little-endian "
                            "f64, f32, f16, bf16, fp8, integers, bool)");
  }
  facts_ = {*dtype, shape_of(object_.get(), what_)};
  check_dtype_attribute(object_.get(), *dtype, what_);
  if (find_raw_range()) return;
  const Handle creation(H5Dget_create_plist(object_.get()), H5Pclose);
  require_plain_storage(creation.get(), what_);
  require_written(object_.get(), creation.get(), facts_, what_);
  if (opened_) {
    chunked_ = ChunkedRange::of(object_.get(), creation.get(), facts_, file_, *opened_);
  }
}

// HDF5 has one lock for all files and threads, so contiguous elements are read without it. A
// dataset with an address is contiguous and in this file: filters and external files need not be
// looked for, which takes longer than everything else.
bool StoredDataset::find_raw_range() {
  const auto bytes = tensor::byte_count(facts_.shape, facts_.dtype);
  if (!opened_ || !bytes || *bytes == 0) return false;
  const haddr_t offset = H5Dget_offset(object_.get());
  if (offset == HADDR_UNDEF) {
    H5Eclear2(H5E_DEFAULT);
    return false;
  }
  // HDF5 refuses elements outside the file, and datasets smaller than their shape.
  if (offset > opened_->end || *bytes > opened_->end - offset ||
      H5Dget_storage_size(object_.get()) < *bytes) {
    return false;
  }
  raw_ = range::RawRange{opened_->descriptor, offset, *bytes};
  return true;
}

void StoredDataset::read(const tensor::Box& box, std::span<std::byte> out) const {
  if (out.size() != tensor::volume(box) * tensor::element_bytes(facts_.dtype)) {
    throw base::internal_error("reading ", tensor::to_string(box), " into ", out.size(), " bytes");
  }
  if (out.empty()) return;
  if (raw_) {
    raw_->read_box(facts_.shape, tensor::element_bytes(facts_.dtype), box, out, what_);
  } else if (chunked_) {
    chunked_->read_box(box, out, what_);
  } else {
    read_by_library(box, out);
  }
  if (opened_) opened_->require_unchanged(what_);
}

void StoredDataset::read_by_library(const tensor::Box& box, std::span<std::byte> out) const {
  const LibraryLock lock;
  const ReadingNote note(file_);
  const Handle space(H5Dget_space(object_.get()), H5Sclose);
  const Handle memory = select_box(space.get(), box);
  // Memory type = file type: HDF5 copies the bits and converts nothing.
  if (H5Dread(object_.get(), type_.get(), memory.get(), space.get(), H5P_DEFAULT, out.data()) < 0) {
    throw base::input_error(what_, ": cannot be read (", base::printable(last_error()),
                            "); the file may be damaged");
  }
}

}  // namespace ttrace::trace::hdf5
