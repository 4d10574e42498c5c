// A run's folder: manifest.json and a file per rank.
#pragma once

#include <memory>
#include <string>

#include "trace/source.h"

namespace ttrace::trace {

// Throws an input error if there is no readable manifest.json.
std::unique_ptr<Source> open_directory(const std::string& path);

// Opens the directory of a job that still runs, with this manifest instead of its own.
std::unique_ptr<Source> open_directory(const std::string& path, Manifest manifest);

// Returns device and inode of the file behind all links; empty if there is no such file.
std::string file_identity(const std::string& path);

}  // namespace ttrace::trace
