#include "layout/microbatches.h"

#include "base/text.h"

namespace ttrace::layout {
namespace {

using How = trace::Microbatches::How;

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
    tensor::Box target = tensor::whole(part->shape);
    target.origin[dim] = at;
    at += part->shape[dim];
    mosaic.tiles.push_back({std::move(target), part, tensor::Shape(part->shape.size(), 0)});
  }
  view.shape[dim] = at;
  view.how = std::move(mosaic);
  return {std::make_shared<View>(std::move(view)), ""};
}

}  // namespace

std::vector<trace::TensorKey> part_keys(const View& whole) {
  std::vector<trace::TensorKey> keys;
  for (const std::uint64_t number : whole.microbatches->numbers) {
    keys.push_back(whole.key);
    keys.back().microbatch = number;
  }
  return keys;
}

Composed compose_microbatches(const View& whole, const std::vector<ViewPtr>& parts) {
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
