// A folder that appears under its name only when everything in it is written.
#pragma once

#include <cstdint>
#include <string>

#include "base/error.h"
#include "base/new_file.h"

namespace ttrace::app {

// Throws an input error if something stands at `path` already: nothing is replaced.
void require_absent(const std::string& path);

// Throws an input error if the disk of the file or folder to be made has no room for `bytes`.
void require_room(const std::string& path, std::uint64_t bytes);

class NewFolder {
 public:
  // Creates a folder beside `path`, which must be absent; throws an input error if it cannot.
  explicit NewFolder(const std::string& path);
  // Where `name` lies until put_in_place(); without that, all is removed.
  std::string file(const std::string& name) const;
  // The message with the name that the user gave in the place of the one until then.
  base::Error named(const base::Error& error) const;
  // Throws an input error if it cannot be renamed.
  void put_in_place();

 private:
  base::UnfinishedOutput output_;
};

}  // namespace ttrace::app
