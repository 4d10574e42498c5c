// Compresses texts, and reads compressed ones, by the library that inflates the chunks of traces.
#pragma once

#include <string>
#include <string_view>

namespace ttrace::base {

// A zlib stream (RFC 1950): what browsers call "deflate".
std::string zlib_compressed(std::string_view text);

// A gzip file (RFC 1952) without name and time, so that the same text makes the same bytes.
std::string gzip_compressed(std::string_view text);

// The text of `bytes`, which are a gzip file of one member, or the text itself. Throws an input
// error naming `file` if they are damaged, or the text is larger than kLargestText (files.h).
std::string gunzipped(std::string bytes, const std::string& file);

}  // namespace ttrace::base
