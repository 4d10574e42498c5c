#include "trace/hdf5/rank_file.h"

#include <array>
#include <cstdio>

#include "base/error.h"

namespace ttrace::trace::hdf5 {

std::string rank_file_name(std::uint64_t rank) {
  std::array<char, 40> buffer{};
  std::snprintf(buffer.data(), buffer.size(), "rank_%05llu.h5",
                static_cast<unsigned long long>(rank));
  return buffer.data();
}

std::shared_ptr<const File> open_rank_file(const std::string& path, std::uint64_t rank) {
  std::shared_ptr<const File> file = File::open(path);
  const auto written_by = file->root_attribute("ttrace_rank");
  if (written_by && *written_by != rank) {
    throw base::input_error(path, ": was written by rank ", *written_by,
                            " (attribute ttrace_rank), not by rank ", rank,
                            "; were files renamed or copied over each other?");
  }
  return file;
}

}  // namespace ttrace::trace::hdf5
