// Plans as text, so that a test shows a layout at a glance.
#pragma once

#include <string>

#include "base/text.h"
#include "layout/plan.h"

namespace ttrace::test {

// "[0:2, 0:4] = 0 1 + 2 3; ...": blocks, part after part, with the ranks of their terms' replicas.
inline std::string spelled(const layout::Plan& plan) {
  std::string text;
  for (const layout::Block& block : plan.blocks) {
    text += text.empty() ? "" : "; ";
    for (const layout::PlacedBox& part : block.held.parts) text += tensor::to_string(part.global);
    text += " =";
    for (std::size_t i = 0; i < block.terms.size(); ++i) {
      if (i > 0) text += " +";
      for (const std::uint64_t rank : block.terms[i].ranks) text += base::concat(" ", rank);
    }
  }
  return text;
}

}  // namespace ttrace::test
