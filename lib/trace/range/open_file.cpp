#include "trace/range/open_file.h"

#include <sys/stat.h>

#include <cerrno>

#include "base/error.h"

namespace ttrace::trace::range {
namespace {

bool is_as_opened(const OpenFile& file, const struct stat& now) {
  return static_cast<std::uint64_t>(now.st_size) == file.end &&
         now.st_mtim.tv_sec == file.changed.tv_sec && now.st_mtim.tv_nsec == file.changed.tv_nsec;
}

}  // namespace

bool OpenFile::is_unchanged() const {
  struct stat now {};
  return ::fstat(descriptor, &now) == 0 && is_as_opened(*this, now);
}

void OpenFile::require_unchanged(const std::string& what) const {
  struct stat now {};
  if (::fstat(descriptor, &now) != 0) {
    throw base::input_error(what, ": cannot be read (", base::reading_problem(errno), ")");
  }
  if (is_as_opened(*this, now)) return;
  throw base::input_error(what,
                          ": the file has been written since it was opened; compare again when "
                          "the job that writes it is done");
}

}  // namespace ttrace::trace::range
