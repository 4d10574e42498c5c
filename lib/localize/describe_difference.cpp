#include "localize/describe_difference.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "base/display_limits.h"
#include "base/error.h"
#include "base/message.h"
#include "base/text.h"
#include "layout/mesh.h"
#include "localize/explain.h"
#include "measure/measure.h"

namespace ttrace::localize {
namespace {

using base::concat;
using base::render;
using judge::Slice;

std::string describe_slice(const Slice& slice, const tensor::Shape& shape) {
  const tensor::Box box = tensor::hull(slice.boxes);
  switch (slice.what) {
    case Slice::What::kShard: {
      base::Message shard{"the shard {box}[ ({part})][ of rank {rank}]",
                          {{"box", tensor::to_string(box)}, {"part", slice.part}}};
      if (!slice.ranks.empty()) shard.values.emplace_back("rank", slice.ranks.front());
      return render(shard);
    }
    case Slice::What::kBlock: {
      const std::uint64_t first = box.origin[slice.dim];
      const std::uint64_t last = first + box.extent[slice.dim] - 1;
      return render({first == last ? "index {first} of {extent} along dimension {dim}"
                                   : "{first} to {last} of {extent} along dimension {dim}",
                     {{"first", first},
                      {"last", last},
                      {"extent", shape[slice.dim]},
                      {"dim", std::uint64_t{slice.dim}}}});
    }
    case Slice::What::kElement:
      return render({"the element {at}", {{"at", tensor::to_string(box.origin)}}});
    case Slice::What::kScale:
      return tensor::volume(box) == tensor::element_count(shape)
                 ? render({"its scale", {}})
                 : render({"the scale of {box}", {{"box", tensor::to_string(box)}}});
  }
  return "";
}

std::string describe_slice_error(const Slice& slice) {
  const double allowed = slice.tolerance.allowed_norm();
  if (slice.what == Slice::What::kElement || !(slice.reference_norm > 0)) {
    return render({"|d| = {difference}, allowed {allowed}",
                   {{"difference", slice.difference_norm}, {"allowed", allowed}}});
  }
  const double error = slice.difference_norm / slice.reference_norm;
  const double most = allowed / slice.reference_norm;
  if (slice.what == Slice::What::kScale) {
    return render(
        {"all of it {percent} % too large or small, where rounding makes {most} % at most",
         {{"percent", 100 * error}, {"most", 100 * most}}});
  }
  return render({"error {error} of its norm, allowed {most}", {{"error", error}, {"most", most}}});
}

}  // namespace

std::string describe_slices(const judge::SliceJudgement& slices, const tensor::Shape& shape) {
  if (slices.found.empty()) return "";
  const Slice& worst = slices.found.front();
  base::Message told{
      "{slice}: {error}[; and {more:more part}]",
      {{"slice", describe_slice(worst, shape)}, {"error", describe_slice_error(worst)}}};
  if (slices.beyond > 1) told.values.emplace_back("more", std::uint64_t{slices.beyond - 1});
  return render(told);
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

std::string describe_ranges(const std::vector<std::size_t>& indices, const tensor::Shape& shape,
                            std::size_t dim) {
  std::string text;
  std::uint64_t ranges = 0;
  for (std::size_t i = 0; i < indices.size(); ++ranges) {
    const std::size_t first = indices[i];
    while (i + 1 < indices.size() && indices[i + 1] == indices[i] + 1) ++i;
    const std::size_t last = indices[i++];
    if (ranges >= base::kShown.few_names) continue;
    text += concat(ranges > 0 ? ", " : "", first, last > first ? concat(" to ", last) : "");
  }
  base::Message told{
      shape.size() != 2
          ? "{indices?index|indices} {which}[ and {more} more places] of {extent} along dimension "
            "{dim}"
      : dim == 0 ? "{indices?row|rows} {which}[ and {more} more places] of {extent}"
                 : "{indices?column|columns} {which}[ and {more} more places] of {extent}",
      {{"indices", std::uint64_t{indices.size()}},
       {"which", text},
       {"extent", shape[dim]},
       {"dim", std::uint64_t{dim}}}};
  if (ranges > base::kShown.few_names) {
    told.values.emplace_back("more", ranges - base::kShown.few_names);
  }
  return render(told);
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
    if (!text.empty()) text += "; ";
    text +=
        render({"{percent} % of the squared error in {where}",
                {{"percent", 100 * share / all}, {"where", describe_ranges(held, shape, dim)}}});
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
    std::string of_candidate;
    if (measured.replicas_differ) {
      for (const std::vector<std::uint64_t>& ranks : measured.replicas->classes) {
        if (!of_candidate.empty()) of_candidate += ", ";
        of_candidate += render({"{value} on {ranks}",
                                {{"value", value_of(as_on(candidate, ranks.front()), result.exact)},
                                 {"ranks", layout::describe_ranks(ranks)}}});
      }
    } else {
      of_candidate = value_of(candidate, result.exact);
    }
    return render(
        {"reference {reference}, candidate {candidate}",
         {{"reference", value_of(reference, result.exact)}, {"candidate", of_candidate}}});
  } catch (const base::InputError&) {
    return "";
  }
}

}  // namespace ttrace::localize
