#include "compare/sections.h"

#include <algorithm>

namespace ttrace::compare {

std::vector<tensor::Box> sections_of(const tensor::Shape& shape) {
  const tensor::Box all = tensor::whole(shape);
  std::vector<tensor::Box> sections;
  // Slabs of at least half the size they may have: whole rows are not always as many as fit.
  const std::uint64_t fewest = kMostSections / 2;
  const std::uint64_t limit = std::max(kSectionElements, tensor::volume(all) / fewest + 1);
  tensor::for_each_slab(all, limit,
                        [&](const tensor::Box& section) { sections.push_back(section); });
  if (sections.empty()) sections.push_back(all);
  return sections;
}

}  // namespace ttrace::compare
