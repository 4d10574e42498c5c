#include "base/display_limits.h"
#include "base/message.h"
#include "layout/mesh.h"
#include "localize/causes/block_mapping.h"

namespace ttrace::localize {

std::vector<Cause> find_duplicated_shard(const Case& the_case) {
  const auto mapping = find_block_mapping(the_case, false);
  if (!mapping) return {};
  const tensor::Shape& shape = the_case.reference.view->shape;
  const std::uint64_t length = shape[mapping->dim] / mapping->blocks();
  std::string text;
  std::uint64_t wrong = 0;
  for (std::uint64_t i = 0; i < mapping->blocks(); ++i) {
    if (mapping->source[i] == i) continue;
    if (++wrong > base::kShown.few_names) continue;
    const auto ranks = ranks_in(the_case, slab(shape, mapping->dim, i * length, length));
    if (!text.empty()) text += ", ";
    text += base::render({"block {block} of {blocks}[ ({ranks})] holds block {held}",
                          {{"block", i},
                           {"blocks", mapping->blocks()},
                           {"ranks", ranks.empty() ? "" : layout::describe_ranks(ranks)},
                           {"held", std::uint64_t{mapping->source[i]}}}});
  }
  if (wrong > base::kShown.few_names) {
    text = base::render({"{named} and {more} more such",
                         {{"named", text}, {"more", wrong - base::kShown.few_names}}});
  }
  return {cause_that_leaves(the_case, mapping->left, "duplicated_shard", "",
                            {"along dimension {dim} {which} of {reference}",
                             {{"dim", std::uint64_t{mapping->dim}}, {"which", text}}},
                            {{"blocks", mapping->blocks()}, {"wrong_blocks", wrong}})};
}

}  // namespace ttrace::localize
