#include "new_folder.h"

#include <sys/stat.h>

#include <cerrno>
#include <filesystem>
#include <utility>

#include "base/error.h"
#include "base/text.h"

namespace ttrace::app {
namespace {

namespace fs = std::filesystem;

// "run" of "run/": a trailing slash is how people write folders.
fs::path without_slash(const std::string& path) {
  const fs::path given = fs::path(path).lexically_normal();
  return given.has_filename() ? given : given.parent_path();
}

fs::path folder_of(const std::string& path) {
  const fs::path parent = without_slash(path).parent_path();
  return parent.empty() ? fs::path(".") : parent;
}

}  // namespace

void require_absent(const std::string& path) {
  base::require_free_place(without_slash(path).string(), base::Existing::kKept);
}

void require_room(const std::string& path, std::uint64_t bytes) {
  std::error_code error;
  const fs::space_info disk = fs::space(folder_of(path), error);
  if (error || bytes <= disk.available) return;
  throw base::input_error(path, ": the tensors take ", base::human_bytes(bytes),
                          ", and the disk has room for ", base::human_bytes(disk.available),
                          "; make them smaller, or --sparse");
}

NewFolder::NewFolder(const std::string& path)
    : output_(without_slash(path).string(), base::Existing::kKept) {
  if (::mkdir(output_.unfinished_path().c_str(), 0777) == 0) return;
  throw base::input_error(output_.path(), ": cannot be created: ", base::writing_problem(errno));
}

std::string NewFolder::file(const std::string& name) const {
  return (fs::path(output_.unfinished_path()) / name).string();
}

base::Error NewFolder::named(const base::Error& error) const {
  std::string text = error.what();
  const std::string& unfinished = output_.unfinished_path();
  if (const std::size_t at = text.find(unfinished); at != std::string::npos) {
    text.replace(at, unfinished.size(), output_.path());
  }
  return {error.kind(), std::move(text)};
}

void NewFolder::put_in_place() { output_.put_in_place(); }

}  // namespace ttrace::app
