// Which tensors are looked at: --only, --skip, --kind, --step.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "comparison/selection.h"

namespace ttrace::app {

// The kinds are parsed when the command runs.
struct SelectionFlags {
  std::vector<std::string> only;
  std::vector<std::string> skip;
  std::vector<std::string> kinds;
  std::vector<std::uint64_t> steps;

  void add_to(CLI::App& command);
  // Throws a usage error on an unknown kind.
  comparison::Selection selection() const;
};

}  // namespace ttrace::app
