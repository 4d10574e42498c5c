#include "base/error.h"

#include <sys/resource.h>

#include <cerrno>
#include <cstring>

#include "base/text.h"

namespace ttrace::base {
namespace {

std::string problem(int error, const char* what_for) {
  switch (error) {
    case EACCES:
    case EPERM:
      return concat("permission denied: this user may not ", what_for,
                    " it; change its mode (and that of the folders above it), or run as its owner");
    case EMFILE: {
      rlimit limit{};
      const bool known = ::getrlimit(RLIMIT_NOFILE, &limit) == 0;
      return concat("this process has as many files open as it may",
                    known ? concat(" (", limit.rlim_cur, ")") : std::string(),
                    "; allow it more with `ulimit -n`");
    }
    case ENFILE:
      return "the whole machine has as many files open as it may; close some, or raise fs.file-max";
    case ENOMEM:
      return "out of memory";
    default:
      return std::strerror(error);
  }
}

}  // namespace

std::string reading_problem(int error) { return problem(error, "read"); }

std::string writing_problem(int error) {
  switch (error) {
    case ENOSPC:
      return "no space left on the disk";
    case EDQUOT:
      return "this user's quota of the disk is used up";
    case EFBIG:
      return "the file would be larger than this process may write (`ulimit -f`)";
    default:
      return problem(error, "write");
  }
}

std::string describe_out_of_memory() {
  rlimit limit{};
  const bool limited = ::getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
  return concat(
      "out of memory: the system gave no more",
      limited ? concat(" (`ulimit -v` allows ", limit.rlim_cur >> 10, " kB)") : std::string(),
      "; allow this process more, or take less with a smaller --memory, fewer --threads, "
      "or --only for some of the tensors");
}

}  // namespace ttrace::base
