#include "outputs.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <iostream>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "trace/open/rank_folder.h"

namespace ttrace::app {
namespace {

namespace fs = std::filesystem;

// "run" for "run/": people write folders with a trailing slash.
fs::path without_slash(const std::string& path) {
  const fs::path given = fs::path(path).lexically_normal();
  return given.has_filename() ? given : given.parent_path();
}

}  // namespace

OutputFile::OutputFile(const std::string& path) : path_(path), to_stdout_(is_stdout(path)) {
  if (!path.empty() && !to_stdout_) file_.emplace(path, base::Existing::kReplaced);
}

void OutputFile::store(std::string_view text) {
  if (file_) {
    file_->store(text);
    base::inform(
        base::concat("wrote ", base::printable(path_), " (", base::human_bytes(text.size()), ")"));
  }
  if (!to_stdout_) return;
  std::cout.flush();
  if (const int error = base::write_all(STDOUT_FILENO, text); error != 0) {
    throw base::input_error("standard output: cannot be written: ", base::writing_problem(error));
  }
}

AppendedFile::AppendedFile(const std::string& path)
    : path_(path),
      descriptor_(
          ::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0644)) {
  struct stat found {};
  if (descriptor_ < 0) {
    throw base::input_error(path_, ": cannot be written: ", base::writing_problem(errno));
  }
  if (::fstat(descriptor_, &found) == 0 && S_ISREG(found.st_mode)) return;
  ::close(descriptor_);
  throw base::input_error(path_, ": is no regular file");
}

AppendedFile::~AppendedFile() { ::close(descriptor_); }

void AppendedFile::append(std::string_view text) {
  if (const int error = base::write_all(descriptor_, text); error != 0) {
    throw base::input_error(path_, ": cannot be written: ", base::writing_problem(error));
  }
}

void require_not_of_trace(const std::string& output, const std::string& input) {
  if (output.empty() || is_stdout(output)) return;
  const fs::path path(output);
  const std::string name = path.filename().string();
  const bool is_trace_file = name == "manifest.json" || trace::names_rank_file(name);
  std::error_code error;
  bool belongs = fs::equivalent(output, input, error) ||
                 (is_trace_file && fs::equivalent(fs::absolute(path).parent_path(), input, error));
  // A link in the folder leads to a file elsewhere.
  if (fs::is_regular_file(path, error)) {
    for (fs::directory_iterator file(input, error), end; !belongs && !error && file != end;
         file.increment(error)) {
      std::error_code gone;
      belongs = fs::equivalent(file->path(), path, gone);
    }
  }
  if (belongs) {
    throw base::usage_error(output, ": belongs to the trace that is read; write to another file");
  }
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
