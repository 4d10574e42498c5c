#include "manual/completions.h"

#include <array>

namespace ttrace::app {

std::span<const Shell> shells() {
  static constexpr std::array kShells{Shell{"bash", bash_completions},
                                      Shell{"fish", fish_completions},
                                      Shell{"zsh", zsh_completions}};
  return kShells;
}

}  // namespace ttrace::app
