#include "output_file.h"

#include <unistd.h>

#include <filesystem>
#include <iostream>

#include "base/error.h"
#include "base/log.h"
#include "base/text.h"

namespace ttrace::app {

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

void require_not_of_trace(const std::string& output, const std::string& input) {
  namespace fs = std::filesystem;
  if (output.empty() || is_stdout(output)) return;
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
