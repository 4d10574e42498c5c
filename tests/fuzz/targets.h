// The readers of files from elsewhere that are fuzzed.
#pragma once

#include <span>
#include <string_view>

namespace ttrace::fuzz {

struct Target {
  std::string_view name;  // and of the folder of its corpus
  // Reads `bytes` as a file of the kind. An input error is an answer; any other exception, a crash
  // or a hang is a finding.
  void (*read)(std::string_view bytes);
};

std::span<const Target> targets();

// Null if there is none of this name.
const Target* find_target(std::string_view name);

// Reads `bytes`, and takes an input error for an answer.
void read(const Target& target, std::string_view bytes);

}  // namespace ttrace::fuzz
