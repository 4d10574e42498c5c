// Random tensors made of others, with their values and where each element comes from, found element
// by element.
#pragma once

#include <deque>
#include <optional>
#include <vector>

#include "layout/view.h"
#include "property/dealt_tensor.h"

namespace ttrace::test {

// An element of a stored tensor.
struct Origin {
  std::size_t tensor = 0;
  std::size_t element = 0;
};

struct RandomView {
  layout::ViewPtr view;
  Doubles values;
  std::vector<std::optional<Origin>> origins;  // nothing for padding and sums of several
};

inline std::vector<tensor::Shape> points_of(const tensor::Shape& shape) {
  std::vector<tensor::Shape> points{{}};
  for (const std::uint64_t extent : shape) {
    std::vector<tensor::Shape> longer;
    for (const tensor::Shape& point : points) {
      for (std::uint64_t i = 0; i < extent; ++i) {
        longer.push_back(point);
        longer.back().push_back(i);
      }
    }
    points = std::move(longer);
  }
  return points;
}

inline std::size_t place_of(const tensor::Shape& point, const tensor::Shape& shape) {
  std::size_t place = 0;
  for (std::size_t d = 0; d < shape.size(); ++d) place = place * shape[d] + point[d];
  return place;
}

class RandomViews {
 public:
  RandomViews(Random& random, MemoryTrace& trace, tensor::DType dtype)
      : random_(random), trace_(trace), dtype_(dtype) {}

  // At most `depth` views one inside the other.
  RandomView make(const tensor::Shape& shape, int depth) {
    switch (depth == 0 ? 0 : random_.between(0, 4)) {
      case 0:
        return stored(shape);
      case 1:
        return transposed(shape, depth);
      case 2:
        return sum(shape, depth);
      default:
        return mosaic(shape, depth);
    }
  }

  const std::deque<DealtTensor>& tensors() const { return tensors_; }

 private:
  RandomView stored(const tensor::Shape& shape) {
    const std::string name = base::concat("w", tensors_.size());
    RandomTensor tensor =
        random_tensor(random_, trace_.manifest().meshes.at(""), shape, name, dtype_);
    tensors_.push_back(deal_into(trace_, random_, std::move(tensor)));
    const DealtTensor& dealt = tensors_.back();
    RandomView made{layout::view_of(dealt.tensor.entry), dealt.expected, {}};
    for (std::size_t i = 0; i < made.values.size(); ++i) {
      made.origins.push_back(Origin{tensors_.size() - 1, i});
    }
    return made;
  }

  RandomView transposed(const tensor::Shape& shape, int depth) {
    std::vector<std::size_t> axes(shape.size());
    for (std::size_t i = 0; i < axes.size(); ++i) axes[i] = i;
    shuffle(random_, axes);
    tensor::Shape source_shape = shape;
    for (std::size_t i = 0; i < axes.size(); ++i) source_shape[axes[i]] = shape[i];
    const RandomView source = make(source_shape, depth - 1);
    RandomView made;
    for (const tensor::Shape& point : points_of(shape)) {
      tensor::Shape from = point;
      for (std::size_t i = 0; i < axes.size(); ++i) from[axes[i]] = point[i];
      made.values.push_back(source.values[place_of(from, source_shape)]);
      made.origins.push_back(source.origins[place_of(from, source_shape)]);
    }
    made.view = view_of_shape(*source.view, shape, layout::Transposed{source.view, axes});
    return made;
  }

  RandomView sum(const tensor::Shape& shape, int depth) {
    RandomView made = make(shape, depth - 1);
    layout::Sum sum{{made.view}, 1};
    for (std::uint64_t i = random_.between(0, 2); i > 0; --i) {
      const RandomView term = make(shape, depth - 1);
      sum.terms.push_back(term.view);
      for (std::size_t k = 0; k < made.values.size(); ++k) made.values[k] += term.values[k];
      made.origins.assign(made.values.size(), std::nullopt);
    }
    if (tensor::is_floating(dtype_)) sum.factor = random_.chance(0.5) ? 0.5 : 1;
    for (double& value : made.values) value *= sum.factor;
    made.view = view_of_shape(*made.view, shape, std::move(sum));
    return made;
  }

  RandomView mosaic(const tensor::Shape& shape, int depth) {
    const std::vector<tensor::Shape> points = points_of(shape);
    RandomView made{nullptr, Doubles(points.size(), 0), {}};
    made.origins.resize(points.size());
    layout::Mosaic mosaic;
    const std::size_t boxes = shape.empty() ? 1 : random_.between(1, 4);
    std::optional<RandomView> source;
    for (const tensor::Box& target : random_boxes(random_, tensor::whole(shape), boxes)) {
      if (source && random_.chance(0.25)) continue;  // padding
      if (!source || !random_.chance(0.4) || !is_within(target.extent, source->view->shape)) {
        source = make(enlarged(target.extent), depth - 1);
      }
      const tensor::Shape& from = source->view->shape;
      tensor::Shape origin = from;
      for (std::size_t d = 0; d < from.size(); ++d) {
        origin[d] = random_.between(0, from[d] - target.extent[d]);
      }
      for (std::size_t i = 0; i < points.size(); ++i) {
        tensor::Shape at = points[i];
        bool inside = true;
        for (std::size_t d = 0; d < at.size(); ++d) {
          inside =
              inside && at[d] >= target.origin[d] && at[d] < target.origin[d] + target.extent[d];
          at[d] = at[d] - target.origin[d] + origin[d];
        }
        if (!inside) continue;
        made.values[i] = source->values[place_of(at, from)];
        made.origins[i] = source->origins[place_of(at, from)];
      }
      mosaic.tiles.push_back({target, source->view, origin});
    }
    made.view = view_of_shape(*source->view, shape, std::move(mosaic));
    return made;
  }

  static bool is_within(const tensor::Shape& inner, const tensor::Shape& outer) {
    for (std::size_t d = 0; d < inner.size(); ++d) {
      if (inner[d] > outer[d]) return false;
    }
    return true;
  }

  tensor::Shape enlarged(tensor::Shape shape) {
    for (std::uint64_t& extent : shape) extent += random_.chance(0.3) ? random_.between(1, 2) : 0;
    return shape;
  }

  template <typename How>
  static layout::ViewPtr view_of_shape(layout::View view, const tensor::Shape& shape, How how) {
    view.shape = shape;
    view.how = std::move(how);
    return std::make_shared<layout::View>(std::move(view));
  }

  Random& random_;
  MemoryTrace& trace_;
  tensor::DType dtype_;
  std::deque<DealtTensor> tensors_;  // views point into it
};

}  // namespace ttrace::test
