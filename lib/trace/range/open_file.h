// A file of which bytes are read by where they lie.
#pragma once

#include <cstdint>
#include <ctime>
#include <string>

namespace ttrace::trace::range {

struct OpenFile {
  int descriptor = -1;        // open as long as whoever opened the file keeps it open
  std::uint64_t end = 0;      // size of the file when it was opened
  timespec changed = {0, 0};  // and when it had last been written
  // Its job still adds whole steps behind its end and leaves what stands before as it is.
  bool grows = false;

  // Throws an input error naming `what` if the file has been written since, unless it grows.
  void require_unchanged(const std::string& what) const;
};

}  // namespace ttrace::trace::range
