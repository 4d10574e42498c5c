#include "trace/hdf5/hyperslab.h"

#include <vector>

namespace ttrace::trace::hdf5 {

Handle select_box(hid_t space, const tensor::Box& box) {
  if (box.extent.empty()) return {H5Screate(H5S_SCALAR), H5Sclose};
  const std::vector<hsize_t> origin(box.origin.begin(), box.origin.end());
  const std::vector<hsize_t> extent(box.extent.begin(), box.extent.end());
  H5Sselect_hyperslab(space, H5S_SELECT_SET, origin.data(), nullptr, extent.data(), nullptr);
  return {H5Screate_simple(static_cast<int>(extent.size()), extent.data(), nullptr), H5Sclose};
}

}  // namespace ttrace::trace::hdf5
