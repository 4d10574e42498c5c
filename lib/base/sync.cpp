#include "base/sync.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

namespace ttrace::base {
namespace {

namespace fs = std::filesystem;

// Whether fsync() failed because the file system has no such operation.
bool is_unsupported(int error) { return error == EINVAL || error == ENOTSUP || error == ENOSYS; }

int sync_one(const std::string& path, int flags) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | flags);
  if (descriptor < 0) return errno;
  int error = ::fsync(descriptor) == 0 || is_unsupported(errno) ? 0 : errno;
  // A network file system reports here what it could not write.
  if (::close(descriptor) != 0 && error == 0) error = errno;
  return error;
}

}  // namespace

int sync_all_of(const std::string& path) {
  std::error_code error;
  if (!fs::is_directory(fs::symlink_status(path, error))) return sync_one(path, O_NOFOLLOW);
  fs::recursive_directory_iterator item(path, error);
  for (; !error && item != fs::recursive_directory_iterator(); item.increment(error)) {
    if (const int failed = sync_one(item->path().string(), O_NOFOLLOW); failed != 0) return failed;
  }
  return error ? error.value() : sync_one(path, O_DIRECTORY);
}

int sync_folder_of(const std::string& path) {
  const std::string folder = fs::path(path).parent_path().string();
  const int error = sync_one(folder.empty() ? "." : folder, O_DIRECTORY);
  return error == EACCES ? 0 : error;
}

}  // namespace ttrace::base
