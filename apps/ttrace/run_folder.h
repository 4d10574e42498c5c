// The folder of `ttrace run`: the names of its files, and which process owns it.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace ttrace::app {

class RunFolder {
 public:
  // Creates the folder, or takes one that `ttrace run` has made before, and locks it against other
  // processes. Throws an input error if something else lies there, another `ttrace run` works in
  // it, or nothing can be written.
  explicit RunFolder(std::string path);
  ~RunFolder();
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;

  // Removes the files of an earlier run, and nothing else, and notes what this run does.
  void begin(const std::string& what);

  std::string reference() const { return file("ref.h5"); }
  std::string candidate() const { return file("run"); }
  std::string noise_run(std::size_t seed) const;
  std::string specification() const { return file("specification.json"); }
  std::string comparison() const { return file("compare.json"); }
  std::string localization() const { return file("localize.json"); }
  std::string audit() const { return file("audit.json"); }
  std::string page() const { return file("page.html"); }
  // The log of a job, and the file by which its collector says that the trace is complete.
  std::string log(const std::string& job) const { return file(job + ".log"); }
  std::string done(const std::string& job) const { return file(job + ".done"); }

  const std::string& path() const { return path_; }
  // The names of the files that were made, in the order above, without logs.
  std::vector<std::string> kept() const;

 private:
  std::string file(const std::string& name) const;

  std::string path_;
  int lock_ = -1;
};

}  // namespace ttrace::app
