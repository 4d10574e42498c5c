// HDF5 files that no trace writer makes, through the C API.
#pragma once

#include <stdexcept>
#include <string>
#include <vector>

#include "trace/hdf5/library/library.h"

namespace ttrace::test {

using trace::hdf5::Handle;
using trace::hdf5::LibraryLock;

inline hid_t made(hid_t id) {
  if (id < 0) throw std::runtime_error("the test's own HDF5 call failed");
  return id;
}

inline void done(herr_t status) { made(status); }

inline Handle simple_space(const std::vector<hsize_t>& extents) {
  return {made(H5Screate_simple(static_cast<int>(extents.size()), extents.data(), nullptr)),
          H5Sclose};
}

inline Handle scalar_space() { return {made(H5Screate(H5S_SCALAR)), H5Sclose}; }

inline Handle creation_list() { return {made(H5Pcreate(H5P_DATASET_CREATE)), H5Pclose}; }

// A list for chunks of `extents`.
inline Handle chunked_list(const std::vector<hsize_t>& extents) {
  Handle list = creation_list();
  done(H5Pset_chunk(list.get(), static_cast<int>(extents.size()), extents.data()));
  return list;
}

inline Handle text_type(std::size_t size) {
  Handle type(made(H5Tcopy(H5T_C_S1)), H5Tclose);
  done(H5Tset_size(type.get(), size));
  done(H5Tset_cset(type.get(), H5T_CSET_UTF8));
  return type;
}

class OddFile {
 public:
  explicit OddFile(const std::string& path) {
    const LibraryLock lock;
    file_ =
        Handle(made(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT)), H5Fclose);
    links_ = Handle(made(H5Pcreate(H5P_LINK_CREATE)), H5Pclose);
    done(H5Pset_create_intermediate_group(links_.get(), 1));
  }

  hid_t id() const { return file_.get(); }
  hid_t links() const { return links_.get(); }

  // Creates a dataset and writes `data`, which is of the same type, where there is any.
  Handle dataset(const std::string& path, hid_t type, const Handle& space, const Handle& creation,
                 const void* data = nullptr) const {
    const LibraryLock lock;
    Handle object(made(H5Dcreate2(file_.get(), path.c_str(), type, space.get(), links_.get(),
                                  creation.get(), H5P_DEFAULT)),
                  H5Dclose);
    if (data != nullptr) {
      done(H5Dwrite(object.get(), type, H5S_ALL, H5S_ALL, H5P_DEFAULT, data));
    }
    return object;
  }

  // A dataset of four float32 under `path`.
  Handle four_floats(const std::string& path) const {
    const float values[] = {1, 2, 3, 4};
    return dataset(path, H5T_IEEE_F32LE, simple_space({4}), creation_list(), values);
  }

  void manifest(const std::string& text) const {
    dataset("/manifest", text_type(text.size()).get(), scalar_space(), creation_list(),
            text.data());
  }

  // A string attribute of fixed length.
  static void attribute(const Handle& object, const std::string& name, const std::string& value) {
    const LibraryLock lock;
    const Handle type = text_type(value.size());
    const Handle space = scalar_space();
    const Handle attribute(made(H5Acreate2(object.get(), name.c_str(), type.get(), space.get(),
                                           H5P_DEFAULT, H5P_DEFAULT)),
                           H5Aclose);
    done(H5Awrite(attribute.get(), type.get(), value.data()));
  }

 private:
  Handle file_;
  Handle links_;
};

// The least manifest there is.
inline const char* const kBareManifest =
    R"({"schema": "ttrace.manifest/2", "meshes": {"": {"axes": []}}, "tensors": []})";

}  // namespace ttrace::test
