#include "localize/describe_difference.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "base/display_limits.h"
#include "base/error.h"
#include "base/text.h"
#include "layout/mesh.h"
#include "localize/explain.h"
#include "measure/measure.h"

namespace ttrace::localize {
namespace {

using base::concat;
using judge::Slice;

std::string describe_slice(const Slice& slice, const tensor::Shape& shape) {
  const tensor::Box box = tensor::hull(slice.boxes);
  switch (slice.what) {
    case Slice::What::kShard:
      return concat("the shard ", tensor::to_string(box),
                    slice.part.empty() ? "" : concat(" (", slice.part, ")"),
                    slice.ranks.empty() ? "" : concat(" of rank ", slice.ranks.front()));
    case Slice::What::kBlock: {
      const std::uint64_t first = box.origin[slice.dim];
      const std::uint64_t last = first + box.extent[slice.dim] - 1;
      return concat(first == last ? concat("index ", first) : concat(first, " to ", last), " of ",
                    shape[slice.dim], " along dimension ", slice.dim);
    }
    case Slice::What::kElement:
      return concat("the element ", tensor::to_string(box.origin));
    case Slice::What::kScale:
      return tensor::volume(box) == tensor::element_count(shape)
                 ? "its scale"
                 : concat("the scale of ", tensor::to_string(box));
  }
  return "";
}

std::string describe_slice_error(const Slice& slice) {
  const double allowed = slice.tolerance.allowed_norm();
  if (slice.what == Slice::What::kElement || !(slice.reference_norm > 0)) {
    return concat("|d| = ", base::short_number(slice.difference_norm), ", allowed ",
                  base::short_number(allowed));
  }
  if (slice.what == Slice::What::kScale) {
    return concat("all of it ",
                  base::short_number(100 * slice.difference_norm / slice.reference_norm),
                  " % too large or small, where rounding makes ",
                  base::short_number(100 * allowed / slice.reference_norm), " % at most");
  }
  return concat("error ", base::short_number(slice.difference_norm / slice.reference_norm),
                " of its norm, allowed ", base::short_number(allowed / slice.reference_norm));
}

}  // namespace

std::string describe_slices(const judge::SliceJudgement& slices, const tensor::Shape& shape) {
  if (slices.found.empty()) return "";
  const Slice& worst = slices.found.front();
  std::string text = concat(describe_slice(worst, shape), ": ", describe_slice_error(worst));
  if (slices.beyond > 1) {
    text += concat("; and ", base::plural(slices.beyond - 1, "more part"));
  }
  return text;
}

namespace {

constexpr std::uint64_t kMostElementsDescribed = std::uint64_t{1} << 27;
constexpr std::uint64_t kFewestIndices = 4;
constexpr double kMostOfError = 0.9;

// Returns the fewest indices that hold most of the error, ascending; empty if more than a quarter.
std::vector<std::size_t> indices_with_error(const std::vector<double>& errors, double all) {
  std::vector<std::size_t> order(errors.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return errors[a] > errors[b]; });
  double held = 0;
  std::size_t count = 0;
  while (count < order.size() && held < kMostOfError * all) held += errors[order[count++]];
  if (4 * count > order.size()) return {};
  order.resize(count);
  std::sort(order.begin(), order.end());
  return order;
}

std::string describe_dimension(std::size_t dim, std::size_t dims, bool one) {
  if (dims == 2) return dim == 0 ? (one ? "row " : "rows ") : (one ? "column " : "columns ");
  return one ? "index " : "indices ";
}

std::string describe_ranges(const std::vector<std::size_t>& indices, const tensor::Shape& shape,
                            std::size_t dim) {
  std::string text;
  std::size_t ranges = 0;
  for (std::size_t i = 0; i < indices.size(); ++ranges) {
    const std::size_t first = indices[i];
    while (i + 1 < indices.size() && indices[i + 1] == indices[i] + 1) ++i;
    const std::size_t last = indices[i++];
    if (ranges >= base::kShown.few_names) continue;
    text += concat(ranges > 0 ? ", " : "", first, last > first ? concat(" to ", last) : "");
  }
  if (ranges > base::kShown.few_names)
    text += concat(" and ", ranges - base::kShown.few_names, " more places");
  return concat(describe_dimension(dim, shape.size(), indices.size() == 1), text, " of ",
                shape[dim], shape.size() == 2 ? "" : concat(" along dimension ", dim));
}

}  // namespace

std::string rows_with_error(const measure::TensorRef& reference,
                            const measure::TensorRef& candidate) {
  const tensor::Shape& shape = reference.view->shape;
  if (tensor::element_count(shape).value_or(kMostElementsDescribed + 1) > kMostElementsDescribed)
    return "";
  const auto errors = measure::squared_errors_by_index(reference, candidate);
  std::string text;
  for (std::size_t dim = 0; dim < shape.size(); ++dim) {
    const double all = std::accumulate(errors[dim].begin(), errors[dim].end(), 0.0);
    if (shape[dim] < kFewestIndices || !(all > 0)) continue;
    const std::vector<std::size_t> held = indices_with_error(errors[dim], all);
    if (held.empty()) continue;
    double share = 0;
    for (const std::size_t index : held) share += errors[dim][index];
    text += concat(text.empty() ? "" : "; ", base::short_number(100 * share / all),
                   " % of the squared error in ", describe_ranges(held, shape, dim));
  }
  return text;
}

namespace {

std::string value_of(const measure::TensorRef& tensor, bool exact) {
  const auto reader = tensor.open(measure::Replicas::kFirstOnly);
  const tensor::Box box = tensor::whole(tensor.view->shape);
  if (exact) {
    std::vector<std::int64_t> value(1);
    reader->read_integers(box, value);
    return std::to_string(value[0]);
  }
  std::vector<double> value(1);
  reader->read(box, value);
  return base::nine_digits(value[0]);
}

// Returns the tensor as `rank` has it: along axes that replicate it, only that rank counts.
measure::TensorRef as_on(const measure::TensorRef& tensor, std::uint64_t rank) {
  const trace::Manifest& manifest = tensor.source->manifest();
  const layout::ViewPtr view =
      layout::with_entries(tensor.view, [&](const trace::TensorEntry& entry) {
        trace::TensorEntry changed = entry;
        const trace::Mesh& mesh = manifest.meshes.at(entry.mesh);
        const std::vector<std::uint64_t> at = layout::coordinates_of(mesh, rank);
        for (std::size_t a = 0; a < mesh.axes.size(); ++a) {
          const auto placed = entry.placements.find(mesh.axes[a].name);
          const bool copies = placed == entry.placements.end() ||
                              std::holds_alternative<trace::Replicate>(placed->second);
          if (!copies || mesh.axes[a].size == 1) continue;
          changed.placements[mesh.axes[a].name] = trace::Only{at[a]};
          changed.held_at.erase(mesh.axes[a].name);
        }
        return changed;
      });
  return {tensor.source, view};
}

}  // namespace

std::string describe_values(const measure::TensorRef& reference,
                            const measure::TensorRef& candidate,
                            const comparison::TensorComparison& result) {
  const measure::Measurement& measured = result.comparison->measurement;
  if (measured.total.elements != 1) return "";
  try {
    std::string text = concat("reference ", value_of(reference, result.exact), ", candidate ");
    if (!measured.replicas_differ) return concat(text, value_of(candidate, result.exact));
    bool first = true;
    for (const std::vector<std::uint64_t>& ranks : measured.replicas->classes) {
      text += concat(first ? "" : ", ", value_of(as_on(candidate, ranks.front()), result.exact),
                     " on ", layout::describe_ranks(ranks));
      first = false;
    }
    return text;
  } catch (const base::InputError&) {
    return "";
  }
}

}  // namespace ttrace::localize
