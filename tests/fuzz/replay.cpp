// Reads every file of a corpus by its target: what fuzzing found stays mended.
//   ttrace_replay FOLDER      with a folder for each target in it
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "fuzz/targets.h"

namespace fs = std::filesystem;

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fputs("usage: ttrace_replay FOLDER\n", stderr);
    return 2;
  }
  int faults = 0;
  for (const ttrace::fuzz::Target& target : ttrace::fuzz::targets()) {
    const fs::path folder = fs::path(argv[1]) / target.name;
    std::size_t files = 0;
    for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
      std::ifstream file(entry.path(), std::ios::binary);
      const std::string bytes{std::istreambuf_iterator<char>(file), {}};
      ++files;
      try {
        read(target, bytes);
      } catch (const std::exception& error) {
        std::fprintf(stderr, "%s: %s\n", entry.path().c_str(), error.what());
        ++faults;
      }
    }
    std::printf("%s: %zu files\n", std::string(target.name).c_str(), files);
    if (files == 0) ++faults;
  }
  return faults == 0 ? 0 : 1;
}
