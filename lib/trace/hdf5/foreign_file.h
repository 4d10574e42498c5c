// What a file or folder is that was given in place of a trace, by its first bytes.
#pragma once

#include <string>

namespace ttrace::trace::hdf5 {

// Returns what to say of a file that the library cannot open, and the way out, such as "is a
// checkpoint, not a trace; ...". Empty for a file that may be a broken trace, and for
// one that cannot be read.
std::string describe_foreign_file(const std::string& path);

// The same of a folder without a manifest and without files of ranks. Looks at the first thousand
// of its files. Empty where none of them is recognised.
std::string describe_foreign_folder(const std::string& path);

}  // namespace ttrace::trace::hdf5
