// The traces that the program carries: testdata/demo, packed by cmake/TtraceEmbedArchive.cmake.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace ttrace::app {

extern const std::string_view kDemoArchive;

// Calls `file` for every file of the archive with its name, such as "buggy/rank_00000.h5", and its
// bytes.
void for_each_demo_file(const std::function<void(const std::string&, std::string_view)>& file);

}  // namespace ttrace::app
