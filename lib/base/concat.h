// Joins values into one string. g++ 12 has no <format>, and message text is not worth a dependency.
#pragma once

#include <locale>
#include <sstream>
#include <string>

namespace ttrace::base {

template <typename... Parts>
std::string concat(const Parts&... parts) {
  std::ostringstream out;
  out.imbue(std::locale::classic());
  (out << ... << parts);
  return out.str();
}

}  // namespace ttrace::base
