#include "trace/range/open_file.h"

#include <sys/stat.h>

#include <cerrno>

#include "base/error.h"

namespace ttrace::trace::range {

void OpenFile::require_unchanged(const std::string& what) const {
  if (grows) return;
  struct stat now {};
  if (::fstat(descriptor, &now) != 0) {
    throw base::input_error(what, ": cannot be read (", base::reading_problem(errno), ")");
  }
  if (static_cast<std::uint64_t>(now.st_size) == end && now.st_mtim.tv_sec == changed.tv_sec &&
      now.st_mtim.tv_nsec == changed.tv_nsec) {
    return;
  }
  throw base::input_error(what,
                          ": the file has been written since it was opened; compare again when "
                          "the job that writes it is done");
}

}  // namespace ttrace::trace::range
