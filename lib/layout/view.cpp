#include "layout/view.h"

#include <algorithm>
#include <utility>

#include "base/concat.h"

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
  }
  if (coarsest != view.dtype) view.computed_in = coarsest;
  return view;
}

std::string part_words(const trace::TensorKey& part, const trace::TensorKey& whole) {
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

}  // namespace ttrace::layout
