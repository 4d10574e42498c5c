// The table of ranges in an HDF5 file (trace/range/range_table.h): put there when the file is
// finished, and held against the file before anything is read by it.
#pragma once

#include <cstdint>
#include <string>

#include "trace/range/open_file.h"
#include "trace/range/range_table.h"

namespace ttrace::trace::hdf5 {

inline constexpr const char* kRangesDataset = "/ranges";

// Larger tables are not read. A table of a million tensors has a tenth of a GiB.
inline constexpr std::uint64_t kLargestRangesTable = std::uint64_t{1} << 28;

// Seals the finished file `path`, in which `table` stands at `at`. Throws an input error naming the
// file.
void seal_ranges(const std::string& path, const std::string& table, std::uint64_t at);

// The table that stands at `at` of the file, if the file is as it was when it was sealed. Otherwise
// throws an input error that says what is not, without the file's name.
range::RangeTable require_sealed(const std::string& table, std::uint64_t at,
                                 const range::OpenFile& file);

}  // namespace ttrace::trace::hdf5
