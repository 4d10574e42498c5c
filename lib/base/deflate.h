// Compresses texts, and reads compressed ones, by the library that inflates the chunks of traces.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/files.h"

namespace ttrace::base {

// A zlib stream (RFC 1950): what browsers call "deflate".
std::string zlib_compressed(std::string_view text);

// A gzip file (RFC 1952) without name and time, so that the same text makes the same bytes.
std::string gzip_compressed(std::string_view text);

// The text of `bytes`, which are a gzip file of one member, or the text itself. Throws an input
// error naming `file` if they are damaged, or the text has more than `most` bytes.
std::string gunzipped(std::string bytes, const std::string& file,
                      std::uint64_t most = kLargestText);

// The text of a report, FILE.json or FILE.json.gz. Throws an input error naming it if it cannot be
// read, or if the text, its values and what readers make of these may take more than
// json_memory() (strict_json.h).
std::string read_report(const std::string& path);

// How many of these reports may be read at the same time, at least one.
unsigned reports_at_once(const std::vector<std::string>& paths);

}  // namespace ttrace::base
