#include <algorithm>
#include <set>

#include "base/message.h"
#include "localize/causes/block_mapping.h"

namespace ttrace::localize {
namespace {

// More are no order that anybody reads.
constexpr std::uint64_t kMostBlocksInOrder = 16;

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

// Into how many parts the ranks cut the dimension, if slices moved only within these; else 0.
std::uint64_t rank_parts_with_own_rows(const Case& the_case, const BlockMapping& mapping) {
  std::vector<std::uint64_t> part(mapping.blocks(), 0);
  for (const measure::BlockStats& block : the_case.measurement->blocks) {
    if (block.owner->boxes.size() != 1) return 0;
    const tensor::Box& box = block.owner->boxes.front();
    for (std::uint64_t i = 0; i < box.extent[mapping.dim]; ++i) {
      part[box.origin[mapping.dim] + i] = box.origin[mapping.dim] + 1;
    }
  }
  for (std::size_t i = 0; i < part.size(); ++i) {
    if (part[i] != part[mapping.source[i]]) return 0;
  }
  return std::set(part.begin(), part.end()).size();
}

// Rows that data has ordered, as a router does.
Cause rows_in_other_order(const Case& the_case, const BlockMapping& mapping) {
  const std::uint64_t parts = rank_parts_with_own_rows(the_case, mapping);
  const std::uint64_t dim = mapping.dim;
  return cause_that_leaves(
      the_case, mapping.left, "wrong_order", "",
      {parts > 1 ? "the {rows} rows along dimension {dim} are all there, in another order within "
                   "each of {parts} ranks"
                 : "the {rows} rows along dimension {dim} are all there, in another order",
       {{"rows", mapping.blocks()}, {"dim", dim}, {"parts", parts}}},
      {{"rows", mapping.blocks()},
       {"dim", dim},
       {"parts", parts > 1 ? std::to_string(parts) : ""}});
}

}  // namespace

std::vector<Cause> find_wrong_order(const Case& the_case) {
  const auto mapping = find_block_mapping(the_case, true);
  if (!mapping || is_shift(*mapping, the_case.reference.view->shape[mapping->dim])) return {};
  const base::Message order = describe_permutation(*mapping);
  const bool is_listed = std::any_of(order.values.begin(), order.values.end(),
                                     [](const auto& of) { return of.first == "block_order"; });
  if (is_listed && mapping->blocks() > kMostBlocksInOrder &&
      mapping->blocks() == the_case.reference.view->shape[mapping->dim]) {
    return {rows_in_other_order(the_case, *mapping)};
  }
  return {cause_that_leaves(
      the_case, mapping->left, "wrong_order", "",
      {"along dimension {dim} {order}",
       {{"dim", std::uint64_t{mapping->dim}}, {"order", rendered_for(the_case, order)}}},
      {order.values.begin(), order.values.end()})};
}

}  // namespace ttrace::localize
