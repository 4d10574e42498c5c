// A file that a command writes at its end but must be able to write from its beginning.
#pragma once

#include <fstream>
#include <string>
#include <string_view>

namespace ttrace::app {

// Opens before the long run, so that a typing error in a path costs seconds and not hours; whatever
// stood there is replaced only by store(). An empty path is no file.
class OutputFile {
 public:
  explicit OutputFile(std::string path);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  // Whether there is a file: what nobody asked for need not be made.
  bool wanted() const { return !path_.empty(); }
  // Writes and puts the file in place; throws an input error if the disk does not take it.
  void store(std::string_view text);

 private:
  std::string path_;
  std::string partial_;
  std::ofstream file_;
};

// Throws a usage error if `output` is the trace `input`, or one of the files in its directory that
// it consists of: what is read must not be replaced by what is made of it.
void require_not_of_trace(const std::string& output, const std::string& input);

}  // namespace ttrace::app
