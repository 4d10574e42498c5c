// How an answer was made: by what, and how far it came.
#pragma once

#include <cstdint>
#include <string>

namespace ttrace::answer {

struct Environment {
  std::string backend;
  std::string instruction_set;
  std::string remarks;  // what the backend left to another one, and why
  unsigned threads = 0;
  double seconds = 0;
  std::uint64_t bytes_read = 0;
  std::string version;
};

// What is missing where every part is there, but the files lie on several disks.
inline constexpr const char* kApart = "files apart";

// How far a comparison or an audit came that was stopped before everything was measured, or whose
// parts are not all there.
struct Interruption {
  std::uint64_t measured = 0;
  std::uint64_t of = 0;
  std::string missing = "";  // comparison::missing_parts(), kApart, or empty

  // "interrupted after 20 of 202 tensors", "part 2 of 3 is missing, with 20 of 202 tensors",
  // "20 of 202 tensors lie apart: no part has all rank files that are needed for them".
  std::string describe() const;
};

}  // namespace ttrace::answer
