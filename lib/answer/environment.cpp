#include "answer/environment.h"

#include "base/message.h"

namespace ttrace::answer {

std::string Interruption::describe() const {
  if (missing.empty()) {
    return base::render(
        {"interrupted after {measured} of {of:tensor}", {{"measured", measured}, {"of", of}}});
  }
  const std::uint64_t left = of - measured;
  if (missing == kApart) {
    return base::render(
        {"{left} of {of:tensor} {left?lies|lie} apart: no part has all rank files "
         "that are needed for {left?it|them}",
         {{"left", left}, {"of", of}}});
  }
  return base::render({"{missing}, with {left} of {of:tensor}",
                       {{"missing", missing}, {"left", left}, {"of", of}}});
}

}  // namespace ttrace::answer
