// Makes the system write files to the disk. Otherwise written bytes may still be lost, and the
// system may report a write error to nobody.
#pragma once

#include <string>

namespace ttrace::base {

// Syncs a file, or a folder and everything in it; follows no links. Returns 0, or the errno of the
// first failure. File systems that cannot sync succeed.
int sync_all_of(const std::string& path);

// Syncs the list of names of the folder that `path` lies in, so that a rename survives a crash of
// the machine. Returns as sync_all_of(). A folder that this user may not read succeeds.
int sync_folder_of(const std::string& path);

}  // namespace ttrace::base
