// One line that says how far a comparison is.
#pragma once

#include <cstdint>
#include <string>

namespace ttrace::report {

struct ProgressState {
  std::uint64_t done_bytes = 0;
  std::uint64_t expected_bytes = 0;
  double seconds = 0;         // since the beginning
  std::string largest_error;  // tensor with the largest relative error so far, or empty
  double error = 0;
};

// "42 %  1.2 GB of 2.9 GB  8.1 GB/s  0:02 left  largest error 3.1e-3 in fc1 · output · step 0"
std::string progress_text(const ProgressState& state);

}  // namespace ttrace::report
