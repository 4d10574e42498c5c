// The formats of files that an answer is written in, for every command and for `ttrace report
// show`: a further one is a line of the table.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace ttrace::report {

struct FileFormat {
  std::string_view name;  // of the format, and of its flag after "--"
  const char* help;
  // Makes the file of the answer in JSON, which is from `file`. Throws an input error where the
  // JSON is none of compare, localize or audit.
  std::string (*render)(std::string_view json, const std::string& file);
};

inline constexpr std::size_t kJsonFormat = 0;
inline constexpr std::size_t kPageFormat = 1;
inline constexpr std::size_t kMarkdownFormat = 2;

std::span<const FileFormat> file_formats();

}  // namespace ttrace::report
