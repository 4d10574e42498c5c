#include "engine/rows_with_error.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "base/concat.h"
#include "base/number_text.h"
#include "compare/index_errors.h"

namespace ttrace::engine {
namespace {

using base::concat;

constexpr std::uint64_t kMostElements = std::uint64_t{1} << 27;
constexpr std::uint64_t kFewestIndices = 4;
constexpr double kMostOfIt = 0.9;
constexpr std::size_t kMostRangesNamed = 3;

// The fewest indices that hold most of the error, ascending; empty if they are more than a quarter.
std::vector<std::size_t> indices_that_hold_it(const std::vector<double>& errors, double all) {
  std::vector<std::size_t> order(errors.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return errors[a] > errors[b]; });
  double held = 0;
  std::size_t count = 0;
  while (count < order.size() && held < kMostOfIt * all) held += errors[order[count++]];
  if (4 * count > order.size()) return {};
  order.resize(count);
  std::sort(order.begin(), order.end());
  return order;
}

std::string dimension_words(std::size_t dim, std::size_t dims, bool one) {
  if (dims == 2) return dim == 0 ? (one ? "row " : "rows ") : (one ? "column " : "columns ");
  return one ? "index " : "indices ";
}

std::string ranges_words(const std::vector<std::size_t>& indices, const tensor::Shape& shape,
                         std::size_t dim) {
  std::string text;
  std::size_t ranges = 0;
  for (std::size_t i = 0; i < indices.size(); ++ranges) {
    const std::size_t first = indices[i];
    while (i + 1 < indices.size() && indices[i + 1] == indices[i] + 1) ++i;
    const std::size_t last = indices[i++];
    if (ranges >= kMostRangesNamed) continue;
    text += concat(ranges > 0 ? ", " : "", first, last > first ? concat(" to ", last) : "");
  }
  if (ranges > kMostRangesNamed) text += concat(" and ", ranges - kMostRangesNamed, " more places");
  return concat(dimension_words(dim, shape.size(), indices.size() == 1), text, " of ", shape[dim],
                shape.size() == 2 ? "" : concat(" along dimension ", dim));
}

}  // namespace

std::string rows_with_error(const compare::TensorRef& reference,
                            const compare::TensorRef& candidate) {
  const tensor::Shape& shape = reference.view->shape;
  if (tensor::element_count(shape).value_or(kMostElements + 1) > kMostElements) return "";
  const auto errors = compare::squared_errors_by_index(reference, candidate);
  std::string text;
  for (std::size_t dim = 0; dim < shape.size(); ++dim) {
    const double all = std::accumulate(errors[dim].begin(), errors[dim].end(), 0.0);
    if (shape[dim] < kFewestIndices || !(all > 0)) continue;
    const std::vector<std::size_t> held = indices_that_hold_it(errors[dim], all);
    if (held.empty()) continue;
    double share = 0;
    for (const std::size_t index : held) share += errors[dim][index];
    text += concat(text.empty() ? "" : "; ", base::short_number(100 * share / all),
                   " % of the squared error in ", ranges_words(held, shape, dim));
  }
  return text;
}

}  // namespace ttrace::engine
