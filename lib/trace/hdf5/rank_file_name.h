// What the file of a rank is called.
#pragma once

#include <cstdint>
#include <string>

namespace ttrace::trace::hdf5 {

// "rank_00003.h5"
std::string rank_file_name(std::uint64_t rank);

}  // namespace ttrace::trace::hdf5
