// The HDF5 library in use.
#pragma once

#include <string>

namespace ttrace::trace::hdf5 {

// "1.10.8", with the version of the headers if another one was built with.
std::string library_version();

}  // namespace ttrace::trace::hdf5
