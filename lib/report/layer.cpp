#include "report/layer.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <system_error>

namespace ttrace::report {

std::optional<std::uint64_t> layer_of(std::string_view module) {
  for (std::size_t begin = 0; begin < module.size();) {
    const std::size_t end = std::min(module.find('.', begin), module.size());
    std::uint64_t number = 0;
    const auto [last, error] = std::from_chars(module.data() + begin, module.data() + end, number);
    if (error == std::errc() && last == module.data() + end) return number;
    begin = end + 1;
  }
  return std::nullopt;
}

}  // namespace ttrace::report
