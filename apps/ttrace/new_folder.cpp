#include "new_folder.h"

#include <unistd.h>

#include <filesystem>
#include <utility>

#include "base/number_text.h"

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
  std::error_code error;
  if (fs::symlink_status(without_slash(path), error).type() == fs::file_type::not_found) return;
  throw base::input_error(path, ": is there already and is not replaced; give another name, or ",
                          "move it away");
}

void require_room(const std::string& path, std::uint64_t bytes) {
  std::error_code error;
  const fs::space_info disk = fs::space(folder_of(path), error);
  if (error || bytes <= disk.available) return;
  throw base::input_error(path, ": the tensors take ", base::human_bytes(bytes),
                          ", and the disk has room for ", base::human_bytes(disk.available),
                          "; make them smaller, or --sparse");
}

NewFolder::NewFolder(std::string path)
    : path_(without_slash(path).string()), partial_(base::concat(path_, ".", ::getpid(), ".tmp")) {
  std::error_code error;
  if (fs::create_directory(partial_, error) && !error) return;
  const std::string reason = error ? error.message() : "is there already";
  throw base::input_error(path_, ": cannot be created: ", reason);
}

NewFolder::~NewFolder() {
  if (partial_.empty()) return;
  std::error_code error;
  fs::remove_all(partial_, error);
}

std::string NewFolder::file(const std::string& name) const {
  return (fs::path(partial_) / name).string();
}

base::Error NewFolder::named(const base::Error& error) const {
  std::string text = error.what();
  if (const std::size_t at = text.find(partial_); at != std::string::npos) {
    text.replace(at, partial_.size(), path_);
  }
  return {error.kind(), std::move(text)};
}

void NewFolder::put_in_place() {
  std::error_code error;
  fs::rename(partial_, path_, error);
  if (error) throw base::input_error(path_, ": cannot be put in place: ", error.message());
  partial_.clear();
}

}  // namespace ttrace::app
