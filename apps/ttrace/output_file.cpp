#include "output_file.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "base/error.h"

namespace ttrace::app {

OutputFile::OutputFile(std::string path) : path_(std::move(path)) {
  if (path_.empty()) return;
  // A device or pipe is written to, not replaced.
  std::error_code error;
  const auto status = std::filesystem::status(path_, error);
  const bool replaced =
      !std::filesystem::exists(status) || std::filesystem::is_regular_file(status);
  partial_ = replaced ? base::concat(path_, ".", ::getpid(), ".tmp") : path_;
  file_.open(partial_, std::ios::binary);
  if (!file_) {
    const std::string reason = std::strerror(errno);
    partial_.clear();
    throw base::input_error(path_, ": cannot be written: ", reason);
  }
}

OutputFile::~OutputFile() {
  if (partial_.empty() || partial_ == path_) return;
  file_.close();
  std::error_code error;
  std::filesystem::remove(partial_, error);
}

void OutputFile::store(std::string_view text) {
  if (path_.empty()) return;
  file_ << text;
  file_.close();
  if (!file_) throw base::input_error(path_, ": cannot be written; is the disk full?");
  if (partial_ != path_) {
    std::error_code error;
    std::filesystem::rename(partial_, path_, error);
    if (error) throw base::input_error(path_, ": cannot be put in place: ", error.message());
  }
  partial_.clear();
}

void require_not_of_trace(const std::string& output, const std::string& input) {
  namespace fs = std::filesystem;
  if (output.empty()) return;
  const fs::path path(output);
  const std::string name = path.filename().string();
  const bool is_trace_file =
      name == "manifest.json" || (name.starts_with("rank_") && name.ends_with(".h5"));
  std::error_code error;
  if (fs::equivalent(output, input, error) ||
      (is_trace_file && fs::equivalent(fs::absolute(path).parent_path(), input, error))) {
    throw base::usage_error(output, ": belongs to the trace that is read; write to another file");
  }
}

}  // namespace ttrace::app
