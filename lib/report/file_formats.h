// The formats of files that an answer is written in, for every command and for `ttrace report
// show`: a further one is a line of the table.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "report/page/page_answer.h"

namespace ttrace::report {

struct FileFormat {
  std::string_view name;  // of the format, and of its flag after "--"
  const char* help;
  // Makes the file; null for JSON, which is the answer as it is.
  std::string (*render)(const PageAnswer& answer);
};

inline constexpr std::size_t kJsonFormat = 0;
inline constexpr std::size_t kPageFormat = 1;
inline constexpr std::size_t kMarkdownFormat = 2;

std::span<const FileFormat> file_formats();

}  // namespace ttrace::report
