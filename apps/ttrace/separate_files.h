// A command writes no file that it reads, and no file twice. The check goes over the parsed command
// line, so it holds for every command, and for a flag that is added.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace ttrace::app {

struct GivenFile {
  std::string flag;  // "--json", or "REF"
  std::string path;  // "-" is standard output; empty: none
  bool written = false;
  bool trace = false;  // whether the path is a trace, with all its files
};

// Throws a usage error that names both flags if a file to be written is, by another name, by links
// or hard links, another one that is written, one that is read, or a file of a trace that is read.
void require_separate(const std::vector<GivenFile>& files);

// The same of all files that the parsed command line names.
void require_separate_files(const CLI::App& app);

}  // namespace ttrace::app
