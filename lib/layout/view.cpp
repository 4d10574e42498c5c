#include "layout/view.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/bytes.h"
#include "base/error.h"
#include "base/text.h"

namespace ttrace::layout {
namespace {

std::vector<ViewPtr> sources_of(const View& view) {
  if (const auto* mosaic = std::get_if<Mosaic>(&view.how)) {
    std::vector<ViewPtr> sources;
    for (const Mosaic::Tile& tile : mosaic->tiles) {
      const bool known = std::find(sources.begin(), sources.end(), tile.source) != sources.end();
      if (!known) sources.push_back(tile.source);
    }
    return sources;
  }
  if (const auto* sum = std::get_if<Sum>(&view.how)) return sum->terms;
  if (const auto* transposed = std::get_if<Transposed>(&view.how)) return {transposed->source};
  return {};
}

void collect(const View& view, std::vector<const trace::TensorEntry*>& entries) {
  if (const auto* stored = std::get_if<Stored>(&view.how)) entries.push_back(stored->entry.get());
  for (const ViewPtr& source : sources_of(view)) collect(*source, entries);
}

// Limits the tiles of a view. Only a damaged rules file asks for more.
constexpr std::uint64_t kMostGroups = std::uint64_t{1} << 16;

base::InputError refusal(const ViewPtr& view, const std::string& why) {
  return base::input_error(to_string(view->key), " is ", tensor::to_string(view->shape), ", ", why);
}

void require_dimension(const ViewPtr& view, std::uint64_t dim) {
  if (dim < view->shape.size()) return;
  throw refusal(view, base::concat("so it has no dimension ", dim));
}

std::uint64_t per_group(const ViewPtr& view, std::uint64_t extent, std::uint64_t groups) {
  if (groups == 0 || groups > kMostGroups) {
    throw base::input_error(groups, " groups; expected 1 to ", kMostGroups);
  }
  if (extent % groups != 0) {
    throw refusal(view, base::concat(extent, " elements cannot be dealt to ", groups, " groups"));
  }
  return extent / groups;
}

// `extent` elements of `dim`, from `from` in the source to `to` in the target.
Mosaic::Tile tile_along(const ViewPtr& source, std::uint64_t dim, std::uint64_t from,
                        std::uint64_t to, std::uint64_t extent) {
  Mosaic::Tile tile{tensor::whole(source->shape), source, tensor::Shape(source->shape.size(), 0)};
  tile.target.origin[dim] = to;
  tile.target.extent[dim] = extent;
  tile.origin[dim] = from;
  return tile;
}

ViewPtr made(View view, tensor::Shape shape, Mosaic mosaic) {
  view.shape = std::move(shape);
  view.how = std::move(mosaic);
  return std::make_shared<View>(std::move(view));
}

// Unlike concatenated(), joins types of any class, and returns why it cannot.
Composed joined(const View& whole, View view, const std::vector<ViewPtr>& parts) {
  const std::uint64_t dim = whole.microbatches->dim;
  Mosaic mosaic;
  std::uint64_t at = 0;
  for (const ViewPtr& part : parts) {
    tensor::Shape expected = part->shape;
    if (dim < expected.size()) expected[dim] = parts[0]->shape[dim];
    if (dim >= part->shape.size() || expected != parts[0]->shape) {
      return {nullptr,
              base::concat(to_string(part->key), " is ", tensor::to_string(part->shape), ", ",
                           to_string(parts[0]->key), " is ", tensor::to_string(parts[0]->shape),
                           "; they cannot be joined along dimension ", dim)};
    }
    mosaic.tiles.push_back(tile_along(part, dim, 0, at, part->shape[dim]));
    at += part->shape[dim];
  }
  tensor::Shape shape = parts[0]->shape;
  shape[dim] = at;
  return {made(std::move(view), std::move(shape), std::move(mosaic)), ""};
}

}  // namespace

ViewPtr view_of(const trace::TensorEntry& entry) {
  // The manifest owns the entry.
  std::shared_ptr<const trace::TensorEntry> alias(std::shared_ptr<void>(), &entry);
  return std::make_shared<View>(View{entry.key, entry.dtype, entry.shape, entry.computed_in,
                                     entry.order, entry.microbatches, Stored{std::move(alias)}});
}

View made_of(const std::vector<ViewPtr>& parts) {
  View view = *parts.at(0);
  tensor::DType coarsest = view.computed_in.value_or(view.dtype);
  for (const ViewPtr& part : parts) {
    const tensor::DType precision = part->computed_in.value_or(part->dtype);
    if (tensor::epsilon(precision) > tensor::epsilon(coarsest)) coarsest = precision;
    view.left_out = std::max(view.left_out, part->left_out);
  }
  if (coarsest != view.dtype) view.computed_in = coarsest;
  return view;
}

std::string describe_part(const trace::TensorKey& part, const trace::TensorKey& whole) {
  if (part.name != whole.name) return part.name;
  if (part.microbatch && part.microbatch != whole.microbatch) {
    return base::concat("mb ", *part.microbatch);
  }
  return "";
}

std::vector<const trace::TensorEntry*> stored_in(const View& view) {
  std::vector<const trace::TensorEntry*> entries;
  collect(view, entries);
  return entries;
}

ViewPtr with_entries(const ViewPtr& view,
                     const std::function<trace::TensorEntry(const trace::TensorEntry&)>& change) {
  auto changed = std::make_shared<View>(*view);
  if (auto* stored = std::get_if<Stored>(&changed->how)) {
    stored->entry = std::make_shared<trace::TensorEntry>(change(*stored->entry));
  } else if (auto* mosaic = std::get_if<Mosaic>(&changed->how)) {
    for (Mosaic::Tile& tile : mosaic->tiles) tile.source = with_entries(tile.source, change);
  } else if (auto* sum = std::get_if<Sum>(&changed->how)) {
    for (ViewPtr& term : sum->terms) term = with_entries(term, change);
  } else if (auto* transposed = std::get_if<Transposed>(&changed->how)) {
    transposed->source = with_entries(transposed->source, change);
  }
  return changed;
}

ViewPtr concatenated(const std::vector<ViewPtr>& parts, std::uint64_t dim, std::uint64_t groups) {
  View view = made_of(parts);
  tensor::Shape shape = parts[0]->shape;
  std::uint64_t extent = 0;
  std::vector<std::uint64_t> widths;
  for (const ViewPtr& part : parts) {
    require_dimension(part, dim);
    tensor::Shape others = part->shape;
    others[dim] = shape[dim];
    if (others != shape || tensor::is_floating(part->dtype) != tensor::is_floating(view.dtype)) {
      throw refusal(part, base::concat(to_string(parts[0]->key), " is ", tensor::to_string(shape),
                                       "; they cannot be joined along dimension ", dim));
    }
    widths.push_back(per_group(part, part->shape[dim], groups));
    const auto sum = base::checked_add(extent, part->shape[dim]);
    if (!sum) throw refusal(part, "and the whole overflows 64 bits");
    extent = *sum;
  }
  Mosaic mosaic;
  std::uint64_t at = 0;
  for (std::uint64_t g = 0; g < groups; ++g) {
    for (std::size_t p = 0; p < parts.size(); ++p) {
      mosaic.tiles.push_back(tile_along(parts[p], dim, g * widths[p], at, widths[p]));
      at += widths[p];
    }
  }
  shape[dim] = extent;
  if (!tensor::byte_count(shape, view.dtype)) {
    throw refusal(parts[0], "and the whole overflows 64 bits");
  }
  return made(std::move(view), std::move(shape), std::move(mosaic));
}

std::vector<ViewPtr> split(const ViewPtr& whole, std::uint64_t dim, std::uint64_t count,
                           std::vector<std::uint64_t> sizes, std::uint64_t groups) {
  require_dimension(whole, dim);
  const std::uint64_t extent = whole->shape[dim];
  if (sizes.empty()) sizes.assign(count, per_group(whole, extent, count));
  if (sizes.size() != count) {
    throw base::input_error(sizes.size(), " sizes for ", count, " tensors");
  }
  std::uint64_t sum = 0;
  for (const std::uint64_t size : sizes) {
    const auto next = base::checked_add(sum, size);
    if (!next || *next > extent) {
      throw refusal(whole, base::concat("but the sizes add up to more than ", extent));
    }
    sum = *next;
  }
  if (sum != extent) {
    throw refusal(whole, base::concat("but the sizes add up to ", sum, " of ", extent));
  }
  std::vector<Mosaic> mosaics(count);
  std::uint64_t from = 0;
  for (std::uint64_t g = 0; g < groups; ++g) {
    for (std::size_t p = 0; p < count; ++p) {
      const std::uint64_t width = per_group(whole, sizes[p], groups);
      mosaics[p].tiles.push_back(tile_along(whole, dim, from, g * width, width));
      from += width;
    }
  }
  std::vector<ViewPtr> parts;
  for (std::size_t p = 0; p < count; ++p) {
    tensor::Shape shape = whole->shape;
    shape[dim] = sizes[p];
    parts.push_back(made(made_of({whole}), std::move(shape), std::move(mosaics[p])));
  }
  return parts;
}

ViewPtr trimmed(const ViewPtr& view, std::uint64_t dim, std::uint64_t size) {
  require_dimension(view, dim);
  if (size > view->shape[dim]) {
    throw refusal(view, base::concat("so dimension ", dim, " cannot be trimmed to ", size));
  }
  View kept = made_of({view});
  kept.left_out += view->shape[dim] - size;
  tensor::Shape shape = view->shape;
  shape[dim] = size;
  return made(std::move(kept), std::move(shape), {{tile_along(view, dim, 0, 0, size)}});
}

ViewPtr padded(const ViewPtr& view, std::uint64_t dim, std::uint64_t size) {
  require_dimension(view, dim);
  tensor::Shape shape = view->shape;
  shape[dim] = size;
  if (size < view->shape[dim] || !tensor::byte_count(shape, view->dtype)) {
    throw refusal(view, base::concat("so dimension ", dim, " cannot be padded to ", size));
  }
  return made(made_of({view}), std::move(shape), {{tile_along(view, dim, 0, 0, view->shape[dim])}});
}

ViewPtr transposed(const ViewPtr& view, const std::vector<std::size_t>& axes) {
  const std::set<std::size_t> distinct(axes.begin(), axes.end());
  const bool permutation = axes.size() == view->shape.size() && distinct.size() == axes.size() &&
                           (axes.empty() || *distinct.rbegin() == axes.size() - 1);
  if (!permutation) {
    throw refusal(view, "and the axes given are no permutation of its dimensions");
  }
  View turned = made_of({view});
  for (std::size_t i = 0; i < axes.size(); ++i) turned.shape[i] = view->shape[axes[i]];
  turned.how = Transposed{view, axes};
  return std::make_shared<View>(std::move(turned));
}

std::vector<trace::TensorKey> part_keys(const View& whole) {
  std::vector<trace::TensorKey> keys;
  for (const std::uint64_t number : whole.microbatches->numbers) {
    keys.push_back(whole.key);
    keys.back().microbatch = number;
  }
  return keys;
}

Composed compose_microbatches(const View& whole, const std::vector<ViewPtr>& parts) {
  using How = trace::Microbatches::How;
  View view = made_of(parts);
  view.key = whole.key;
  view.microbatches = whole.microbatches;
  if (whole.microbatches->how == How::kShard) return joined(whole, std::move(view), parts);
  for (const ViewPtr& part : parts) {
    if (part->shape == view.shape) continue;
    return {nullptr, base::concat(to_string(part->key), " is ", tensor::to_string(part->shape),
                                  ", ", to_string(parts[0]->key), " is ",
                                  tensor::to_string(view.shape), "; they cannot be added")};
  }
  const bool mean = whole.microbatches->how == How::kMean;
  view.how = Sum{parts, mean ? 1 / static_cast<double>(parts.size()) : 1};
  return {std::make_shared<View>(std::move(view)), ""};
}

}  // namespace ttrace::layout
