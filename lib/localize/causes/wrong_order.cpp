#include "base/message.h"
#include "localize/causes/block_mapping.h"

namespace ttrace::localize {
namespace {

// Whether all slices moved by the same few places. find_shifted names that.
bool is_shift(const BlockMapping& mapping, std::uint64_t extent) {
  const std::size_t n = mapping.blocks();
  if (n != extent || n <= 4) return false;
  const std::size_t by = mapping.source[0];
  for (std::size_t i = 0; i < n; ++i) {
    if (mapping.source[i] != (i + by) % n) return false;
  }
  return is_few_places(by, n) || is_few_places(n - by, n);
}

}  // namespace

std::vector<Cause> find_wrong_order(const Case& the_case) {
  const auto mapping = find_block_mapping(the_case, true);
  if (!mapping || is_shift(*mapping, the_case.reference.view->shape[mapping->dim])) return {};
  const base::Message order = describe_permutation(*mapping);
  return {cause_that_leaves(
      the_case, mapping->left, "wrong_order", "",
      {"along dimension {dim} {order}",
       {{"dim", std::uint64_t{mapping->dim}}, {"order", rendered_for(the_case, order)}}},
      {order.values.begin(), order.values.end()})};
}

}  // namespace ttrace::localize
