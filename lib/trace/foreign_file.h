// What a file or folder is that was given in place of a trace, by its first bytes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace ttrace::trace {

// Whether a file that begins with `head` and has `bytes` begins as safetensors files do: with eight
// bytes, the length of a JSON header that begins with a brace and ends within the file.
bool begins_as_safetensors(std::string_view head, std::uint64_t bytes);

// Returns what to say of a file that the library cannot open, and the way out, such as "is a
// checkpoint, not a trace; ...". Empty for a file that may be a broken trace, and for
// one that cannot be read.
std::string describe_foreign_file(const std::string& path);

// The same for a folder without a manifest and without rank files. Looks at the first thousand of
// its files. Empty if it recognises none of them.
std::string describe_foreign_folder(const std::string& path);

}  // namespace ttrace::trace
