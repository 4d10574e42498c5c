// Places that a message names, read back from its words.
#pragma once

#include <cctype>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tensor/box.h"

namespace ttrace::test {

// Numbers that stand directly behind `word`: "rank 3".
inline std::vector<std::uint64_t> numbers_after(std::string_view text, std::string_view word) {
  std::vector<std::uint64_t> numbers;
  for (std::size_t at = text.find(word); at != std::string_view::npos;
       at = text.find(word, at + 1)) {
    std::size_t digit = at + word.size();
    if (digit >= text.size() || std::isdigit(static_cast<unsigned char>(text[digit])) == 0)
      continue;
    std::uint64_t number = 0;
    for (; digit < text.size() && std::isdigit(static_cast<unsigned char>(text[digit])) != 0;
         ++digit) {
      number = number * 10 + static_cast<std::uint64_t>(text[digit] - '0');
    }
    numbers.push_back(number);
  }
  return numbers;
}

// The first box, "[0:4, 16:32]", behind `from`; "[]" where the tensor has no dimensions.
inline std::optional<tensor::Box> box_after(std::string_view text, std::size_t from,
                                            std::size_t dimensions) {
  while ((from = text.find('[', from)) != std::string_view::npos) {
    const std::string_view inside = text.substr(from + 1, text.find(']', from) - from - 1);
    tensor::Box box;
    std::vector<std::uint64_t> numbers;
    std::size_t colons = 0;
    for (std::size_t i = 0; i < inside.size(); ++i) {
      if (inside[i] == ':') ++colons;
      if (std::isdigit(static_cast<unsigned char>(inside[i])) == 0) continue;
      if (i == 0 || std::isdigit(static_cast<unsigned char>(inside[i - 1])) == 0) {
        numbers.push_back(0);
      }
      numbers.back() = numbers.back() * 10 + static_cast<std::uint64_t>(inside[i] - '0');
    }
    if (colons == dimensions && numbers.size() == 2 * dimensions) {
      for (std::size_t d = 0; d < dimensions; ++d) {
        box.origin.push_back(numbers[2 * d]);
        box.extent.push_back(numbers[2 * d + 1] - numbers[2 * d]);
      }
      return box;
    }
    ++from;
  }
  return std::nullopt;
}

}  // namespace ttrace::test
