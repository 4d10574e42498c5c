// Numbers as people read them, the same on every machine and in every locale.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace ttrace::base {

// Three significant digits: 0.194, 1.6e+06 as "1.6e6", "nan", "inf".
std::string short_number(double value);

// Nine significant digits, by which any two single-precision numbers differ: "7.97502041".
std::string nine_digits(double value);

// "412 B", "1.9 GB" (powers of 1000, as disks are sold and `ls --si` prints).
std::string human_bytes(std::uint64_t bytes);

// "1 tensor", "3 tensors".
std::string plural(std::uint64_t count, std::string_view noun);

// Control characters and what is not UTF-8 become \xNN, so that text from a file can neither move
// the cursor nor break a line.
std::string printable(std::string_view text);

}  // namespace ttrace::base
