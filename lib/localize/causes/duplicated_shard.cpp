#include "base/display_limits.h"
#include "base/text.h"
#include "layout/mesh.h"
#include "localize/causes/block_mapping.h"

namespace ttrace::localize {

std::vector<Cause> find_duplicated_shard(const Case& the_case) {
  const auto mapping = find_block_mapping(the_case, false);
  if (!mapping) return {};
  const tensor::Shape& shape = the_case.reference.view->shape;
  const std::uint64_t length = shape[mapping->dim] / mapping->blocks();
  std::string text;
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < mapping->blocks(); ++i) {
    if (mapping->source[i] == i) continue;
    if (++wrong > base::kShown.few_names) continue;
    const auto ranks = ranks_in(the_case, slab(shape, mapping->dim, i * length, length));
    text +=
        base::concat(text.empty() ? "" : ", ", "block ", i, " of ", mapping->blocks(),
                     ranks.empty() ? "" : base::concat(" (", layout::describe_ranks(ranks), ")"),
                     " holds block ", mapping->source[i]);
  }
  if (wrong > base::kShown.few_names)
    text += base::concat(" and ", wrong - base::kShown.few_names, " more such");
  return {{"duplicated_shard",
           "",
           base::concat("along dimension ", mapping->dim, " ", text, " of the reference ",
                        describe_left(the_case, mapping->left)),
           relative_to_reference(the_case, mapping->left),
           {{"dim", std::uint64_t{mapping->dim}}, {"which", text}}}};
}

}  // namespace ttrace::localize
