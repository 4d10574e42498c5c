#include "base/shortened.h"

#include "base/concat.h"

namespace ttrace::base {
namespace {

bool continues_character(char c) { return (static_cast<unsigned char>(c) & 0xc0U) == 0x80U; }

}  // namespace

std::string shortened(std::string_view text, std::size_t most) {
  if (text.size() <= most) return std::string(text);
  std::size_t head = most / 4 * 3;
  std::size_t tail = text.size() - most / 4;
  while (head > 0 && continues_character(text[head])) --head;
  while (tail < text.size() && continues_character(text[tail])) ++tail;
  return concat(text.substr(0, head), " [... ", tail - head, " bytes ...] ", text.substr(tail));
}

}  // namespace ttrace::base
