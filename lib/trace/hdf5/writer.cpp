#include "trace/hdf5/writer.h"

#include <map>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "trace/hdf5/library/datatype.h"
#include "trace/hdf5/library/file.h"
#include "trace/hdf5/library/stored_dataset.h"
#include "trace/hdf5/read_back.h"
#include "trace/hdf5/sealed_ranges.h"
#include "trace/hdf5/trace_files.h"

namespace ttrace::trace::hdf5 {
namespace {

void set_storage(hid_t creation, const Storage& storage) {
  if (!storage.chunk.empty()) {
    const std::vector<hsize_t> chunk(storage.chunk.begin(), storage.chunk.end());
    H5Pset_chunk(creation, static_cast<int>(chunk.size()), chunk.data());
  }
  if (storage.deflate) H5Pset_deflate(creation, *storage.deflate);
  if (storage.sparse) {
    H5Pset_alloc_time(creation, H5D_ALLOC_TIME_EARLY);
    H5Pset_fill_time(creation, H5D_FILL_TIME_NEVER);
  }
}

// The system's error message, which HDF5 surrounds with a dozen facts about its buffers.
std::string reason() {
  static constexpr std::string_view kStart = "error message = '";
  const std::string all = last_error();
  const std::size_t start = all.find(kStart);
  if (start == std::string::npos) return base::printable(all);
  const std::size_t first = start + kStart.size();
  return base::printable(all.substr(first, all.find('\'', first) - first));
}

// HDF5 keeps an attribute in the object header, which has room for 64 KiB.
constexpr std::size_t kLongestStamp = 4096;

Handle string_type(std::size_t bytes) {
  Handle type(H5Tcopy(H5T_C_S1), H5Tclose);
  H5Tset_size(type.get(), bytes);
  H5Tset_strpad(type.get(), H5T_STR_NULLPAD);
  return type;
}

Handle access_list() {
  Handle access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose);
  // The file cannot be closed while something of it is open: it would not be written to its end.
  H5Pset_fclose_degree(access.get(), H5F_CLOSE_SEMI);
  return access;
}

class FileSink : public Sink {
 public:
  using Sink::create;

  FileSink(const std::string& path, base::Existing existing, std::optional<std::uint64_t> rank)
      : output_(path, existing), rank_(rank) {
    const LibraryLock lock;
    const Handle creation(H5Pcreate(H5P_FILE_CREATE), H5Pclose);
    // Exclusively: what stands there already is neither followed nor overwritten.
    file_ = Handle(H5Fcreate(output_.unfinished_path().c_str(), H5F_ACC_EXCL, creation.get(),
                             access_list().get()),
                   H5Fclose);
    if (!file_) throw failure("cannot be created");
    links_ = Handle(H5Pcreate(H5P_LINK_CREATE), H5Pclose);
    H5Pset_create_intermediate_group(links_.get(), 1);
    H5Pset_char_encoding(links_.get(), H5T_CSET_UTF8);
    if (rank) {
      const auto value = static_cast<std::int64_t>(*rank);
      write_attribute(file_.get(), "ttrace_rank", H5T_STD_I64LE, H5T_NATIVE_INT64, &value);
    }
  }

  void create(const std::string& dataset, tensor::DType dtype, const tensor::Shape& shape,
              const Storage& storage) override {
    const LibraryLock lock;
    const Handle type = make_datatype(dtype);
    const std::vector<hsize_t> extents(shape.begin(), shape.end());
    const Handle space(
        shape.empty() ? H5Screate(H5S_SCALAR)
                      : H5Screate_simple(static_cast<int>(extents.size()), extents.data(), nullptr),
        H5Sclose);
    const Handle creation(H5Pcreate(H5P_DATASET_CREATE), H5Pclose);
    H5Pset_obj_track_times(creation.get(), false);
    set_storage(creation.get(), storage);
    has_chunks_ = has_chunks_ || !storage.chunk.empty();
    Handle object(H5Dcreate2(file_.get(), dataset.c_str(), type.get(), space.get(), links_.get(),
                             creation.get(), H5P_DEFAULT),
                  H5Dclose);
    if (!object) throw failure(base::concat(dataset, " cannot be created"));
    const std::string name(tensor::dtype_name(dtype));
    const Handle text = string_type(name.size());
    write_attribute(object.get(), "ttrace_dtype", text.get(), text.get(), name.data());
    close(object, dataset);
    written_.begin(dataset, {dtype, shape});
  }

  void write(const std::string& dataset, const tensor::Box& box,
             std::span<const std::byte> bytes) override {
    if (bytes.empty()) return;
    store(dataset, box, bytes);
    written_.add(dataset, box, bytes);
  }

  void finish(const Manifest& manifest) override {
    const std::string text = manifest_text(manifest);
    write_manifest(text);
    write_run(manifest.run.id);
    // The seal's checksum covers all bytes outside the ranges, and with chunks that would be data,
    // so that opening the file would read them. Such a file gets no table.
    if (has_chunks_) ranges_.clear();
    const std::string table = ranges_.empty() ? "" : range::table_text(ranges_);
    const std::uint64_t at = table.empty() ? 0 : write_ranges(table);
    close_file();
    if (!table.empty()) seal(table, at);
    read_back(text);
    output_.put_in_place();
  }

 private:
  base::Error failure(const std::string& what) const {
    return base::output_error(output_.path(), ": ", what, " (", reason(),
                              "); is the disk full, or the directory not writable?");
  }

  void close(Handle& object, const std::string& what) const {
    if (!object.close_now()) throw failure(base::concat(what, " cannot be written"));
  }

  void close_file() {
    const LibraryLock lock;
    if (!file_.close_now()) throw failure("cannot be written");
  }

  void store(const std::string& dataset, const tensor::Box& box, std::span<const std::byte> bytes) {
    const LibraryLock lock;
    Handle object(H5Dopen2(file_.get(), dataset.c_str(), H5P_DEFAULT), H5Dclose);
    if (!object) throw failure(base::concat(dataset, " was never created"));
    const Handle type(H5Dget_type(object.get()), H5Tclose);
    const Handle space(H5Dget_space(object.get()), H5Sclose);
    const Handle memory = select_box(space.get(), box);
    if (H5Dwrite(object.get(), type.get(), memory.get(), space.get(), H5P_DEFAULT, bytes.data()) <
        0) {
      throw failure(base::concat(dataset, " cannot be written"));
    }
    if (const haddr_t offset = H5Dget_offset(object.get()); offset != HADDR_UNDEF) {
      ranges_[dataset] = {written_.facts_of(dataset), offset};
    }
    H5Eclear2(H5E_DEFAULT);
    close(object, dataset);
  }

  // Returns where the table lies in the file.
  std::uint64_t write_ranges(const std::string& table) const {
    const LibraryLock lock;
    const hsize_t bytes = table.size();
    const Handle space(H5Screate_simple(1, &bytes, nullptr), H5Sclose);
    const Handle creation(H5Pcreate(H5P_DATASET_CREATE), H5Pclose);
    H5Pset_obj_track_times(creation.get(), false);
    Handle object(H5Dcreate2(file_.get(), kRangesDataset, H5T_STD_U8LE, space.get(), links_.get(),
                             creation.get(), H5P_DEFAULT),
                  H5Dclose);
    if (!object ||
        H5Dwrite(object.get(), H5T_STD_U8LE, H5S_ALL, H5S_ALL, H5P_DEFAULT, table.data()) < 0) {
      throw failure(base::concat(kRangesDataset, " cannot be written"));
    }
    const haddr_t at = H5Dget_offset(object.get());
    close(object, kRangesDataset);
    return at;
  }

  void seal(const std::string& table, std::uint64_t at) const {
    try {
      seal_ranges(output_.unfinished_path(), table, at);
    } catch (const base::InputError& error) {
      throw base::output_error(output_.path(), ": ", kRangesDataset, " cannot be written (",
                               error.what(), ")");
    }
  }

  // Holds the closed file against what was written to it.
  void read_back(const std::string& manifest) const {
    const std::string& file = output_.unfinished_path();
    try {
      const std::shared_ptr<const File> reader = File::open(file);
      if (reader->read_string("/manifest") != manifest ||
          reader->root_number("ttrace_rank") != rank_) {
        throw base::input_error(file, ": /manifest: is not what was written");
      }
      written_.require_in(*reader);
    } catch (const base::InputError& error) {
      throw base::output_error(output_.path(), ": was written and cannot be read back, so that it ",
                               "is given up (", error.what(),
                               "); look after the disk, and write again");
    }
  }

  // A value of the type `memory` as the attribute `name`, of the type `stored` in the file.
  void write_attribute(hid_t object, const char* name, hid_t stored, hid_t memory,
                       const void* value) const {
    const Handle space(H5Screate(H5S_SCALAR), H5Sclose);
    Handle attribute(H5Acreate2(object, name, stored, space.get(), H5P_DEFAULT, H5P_DEFAULT),
                     H5Aclose);
    if (!attribute || H5Awrite(attribute.get(), memory, value) < 0 || !attribute.close_now()) {
      throw failure(base::concat("the attribute ", name, " cannot be written"));
    }
  }

  void write_run(const std::string& id) const {
    if (id.empty() || id.size() > kLongestStamp) return;  // /manifest says it
    const LibraryLock lock;
    const Handle type = string_type(id.size());
    write_attribute(file_.get(), "ttrace_run", type.get(), type.get(), id.data());
  }

  void write_manifest(const std::string& text) const {
    const LibraryLock lock;
    const Handle type = string_type(text.size());
    H5Tset_cset(type.get(), H5T_CSET_UTF8);
    const Handle space(H5Screate(H5S_SCALAR), H5Sclose);
    const Handle creation(H5Pcreate(H5P_DATASET_CREATE), H5Pclose);
    H5Pset_obj_track_times(creation.get(), false);
    Handle object(H5Dcreate2(file_.get(), "/manifest", type.get(), space.get(), links_.get(),
                             creation.get(), H5P_DEFAULT),
                  H5Dclose);
    if (!object ||
        H5Dwrite(object.get(), type.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, text.data()) < 0) {
      throw failure("/manifest cannot be written");
    }
    close(object, "/manifest");
  }

  base::UnfinishedOutput output_;  // removed after the file is closed
  std::optional<std::uint64_t> rank_;
  Handle file_;
  Handle links_;
  WrittenChecksums written_;
  bool has_chunks_ = false;                           // under the lock, as the next
  std::map<std::string, range::StoredRange> ranges_;  // of contiguous datasets
};

}  // namespace

std::unique_ptr<Sink> create_file(const std::string& path, base::Existing existing,
                                  std::optional<std::uint64_t> rank) {
  return std::make_unique<FileSink>(path, existing, rank);
}

}  // namespace ttrace::trace::hdf5
