// Scripts that complete the command line of ttrace, for each shell.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "manual/description.h"

namespace ttrace::app {

std::string bash_completions(const DescribedCommand& program);
std::string zsh_completions(const DescribedCommand& program);
std::string fish_completions(const DescribedCommand& program);

struct Shell {
  std::string_view name;
  std::string (*completions)(const DescribedCommand& program);
};

std::span<const Shell> shells();

}  // namespace ttrace::app
