// Random placements that do not contradict each other, over the whole vocabulary of the format.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "property/naive_layout.h"
#include "property/random_mesh.h"

namespace ttrace::test {

struct RandomTensor {
  trace::TensorEntry entry;
  std::optional<trace::TensorEntry> index;  // where rows say what a rank holds
  std::vector<std::int64_t> numbers;        // the index's values

  NaiveRows rows(const trace::Mesh& mesh) const {
    return index ? rows_of_index(*index, mesh, numbers) : NaiveRows{};
  }
  NaiveDeal deal(const trace::Mesh& mesh) const { return deal_naively(entry, mesh, rows(mesh)); }
  std::uint64_t elements() const {
    std::uint64_t count = 1;
    for (const std::uint64_t extent : entry.shape) count *= extent;
    return count;
  }
};

class RandomPlacements {
 public:
  RandomPlacements(Random& random, const trace::Mesh& mesh, trace::TensorEntry entry)
      : random_(random), mesh_(mesh), maximum_(random.chance(0.3)), left_{entry.shape} {
    tensor_.entry = std::move(entry);
  }

  RandomTensor make() {
    choose_rows();
    std::optional<std::size_t> flat;
    if (rows_axes_.empty() && !mesh_.axes.empty() && random_.chance(0.25)) {
      flat = random_.between(0, mesh_.axes.size() - 1);
    }
    for (std::size_t a = 0; a < mesh_.axes.size(); ++a) {
      const trace::MeshAxis& axis = mesh_.axes[a];
      restrict_axis(axis, rows_axes_.contains(axis.name) || a == flat);
      if (a == flat) continue;
      if (auto placement = random_placement(axis)) {
        narrow(axis, *placement);
        entry().placements[axis.name] = *std::move(placement);
      }
    }
    if (flat) place_flat(mesh_.axes[*flat]);
    if (!rows_axes_.empty()) make_index();
    return std::move(tensor_);
  }

 private:
  trace::TensorEntry& entry() { return tensor_.entry; }

  void choose_rows() {
    if (entry().shape.empty() || mesh_.axes.empty() || !random_.chance(0.2)) return;
    rows_dim_ = random_.between(0, entry().shape.size() - 1);
    rows_axes_.insert(mesh_.axes[random_.between(0, mesh_.axes.size() - 1)].name);
    if (random_.chance(0.3)) {
      rows_axes_.insert(mesh_.axes[random_.between(0, mesh_.axes.size() - 1)].name);
    }
  }

  // "only" for axes that need no placement of their own, or held_at.
  void restrict_axis(const trace::MeshAxis& axis, bool placed) {
    if (!placed && random_.chance(0.08)) {
      entry().placements[axis.name] = trace::Only{random_.between(0, axis.size - 1)};
    } else if (random_.chance(0.25)) {
      std::vector<std::uint64_t> held;
      for (std::uint64_t i = 0; i < axis.size; ++i) {
        if (random_.chance(0.6)) held.push_back(i);
      }
      if (!held.empty()) entry().held_at[axis.name] = held;
    }
  }

  std::optional<trace::Placement> random_placement(const trace::MeshAxis& axis) {
    if (entry().placements.contains(axis.name)) return std::nullopt;
    if (rows_axes_.contains(axis.name)) return trace::Rows{rows_dim_, entry().key.name};
    if (random_.chance(0.1)) return trace::Replicate{};
    if (random_.chance(0.1)) return std::nullopt;
    if (random_.chance(0.15) && tensor::is_floating(entry().dtype)) {
      return trace::Partial{maximum_              ? trace::Reduction::kMax
                            : random_.chance(0.5) ? trace::Reduction::kSum
                                                  : trace::Reduction::kMean};
    }
    const std::size_t dimensions = entry().shape.size();
    if (dimensions == 0) return std::nullopt;
    const std::uint64_t dim = random_.between(0, dimensions - 1);
    const std::size_t parts = held_of(entry(), axis).size();
    if (!rows_axes_.empty() && dim == rows_dim_) return std::nullopt;
    if (rows_axes_.empty() && left_.size() == 1 && random_.chance(0.25)) {
      return trace::Boxes{
          random_boxes(random_, {tensor::Shape(dimensions, 0), *left_.begin()}, parts)};
    }
    switch (random_.between(0, 5)) {
      case 0:
        return trace::Zigzag{dim};
      case 1:
        return trace::Strided{dim, random_.between(1, 5)};
      case 2:
        return random_segments(dim, parts);
      case 3:
        if (const auto extent = one_extent(dim)) {
          return trace::Shard{dim, random_parts(random_, *extent, parts)};
        }
        break;
      default:
        break;
    }
    return trace::Shard{dim, std::nullopt};
  }

  trace::Placement random_segments(std::uint64_t dim, std::size_t parts) {
    const auto extent = one_extent(dim);
    if (!extent) return trace::Shard{dim, std::nullopt};
    trace::Segments segments{dim, {}, random_.between(1, 4), std::nullopt};
    if (*extent % segments.repeat != 0) segments.repeat = 1;
    segments.segments = random_parts(random_, *extent / segments.repeat, random_.between(1, 3));
    if (random_.chance(0.5)) {
      segments.sizes.emplace();
      for (const std::uint64_t segment : segments.segments) {
        segments.sizes->push_back(random_parts(random_, segment, parts));
      }
    }
    return segments;
  }

  // The extent that all ranks have left of a dimension, if it is one: numbers must fit it.
  std::optional<std::uint64_t> one_extent(std::uint64_t dim) const {
    std::set<std::uint64_t> extents;
    for (const tensor::Shape& shape : left_) extents.insert(shape[dim]);
    if (extents.size() != 1) return std::nullopt;
    return *extents.begin();
  }

  // Keeps track of the shapes that are left.
  void narrow(const trace::MeshAxis& axis, const trace::Placement& placement) {
    std::set<tensor::Shape> next;
    const std::size_t parts = held_of(entry(), axis).size();
    bool fits = true;
    for (const tensor::Shape& shape : left_) {
      for (std::size_t i = 0; i < parts; ++i) {
        tensor::Shape cut = shape;
        if (const auto* boxes = std::get_if<trace::Boxes>(&placement)) {
          cut = boxes->boxes[i].extent;
        } else if (const auto dim = trace::cut_dimension(placement)) {
          cut[*dim] = std::visit(KeptIndices{shape[*dim], parts, i, fits}, placement).size();
        }
        next.insert(std::move(cut));
      }
    }
    left_ = std::move(next);
  }

  void place_flat(const trace::MeshAxis& axis) {
    std::set<std::uint64_t> counts;
    for (const tensor::Shape& shape : left_) {
      std::uint64_t count = 1;
      for (const std::uint64_t extent : shape) count *= extent;
      counts.insert(count);
    }
    if (counts.size() != 1) return;
    trace::Flat flat;
    std::uint64_t at = 0;
    for (const std::uint64_t length :
         random_parts(random_, *counts.begin(), held_of(entry(), axis).size())) {
      flat.ranges.push_back({at, at + length});
      at += length;
    }
    shuffle(random_, flat.ranges);
    entry().placements[axis.name] = flat;
  }

  // Every row once, in an order that is random here and there, between rows of padding.
  void make_index() {
    const std::uint64_t extent = entry().shape[rows_dim_];
    for (std::uint64_t row = 0; row < extent; ++row) {
      tensor_.numbers.push_back(static_cast<std::int64_t>(row));
    }
    const bool padded = random_.chance(0.6);
    for (std::uint64_t i = 0; padded && i < random_.between(0, 4); ++i) {
      tensor_.numbers.push_back(-1 - static_cast<std::int64_t>(random_.between(0, 2)));
    }
    const std::uint64_t swaps = random_.between(0, tensor_.numbers.size());
    for (std::uint64_t i = 0; i < swaps; ++i) {
      const std::uint64_t last = tensor_.numbers.size() - 1;
      std::swap(tensor_.numbers[random_.between(0, last)],
                tensor_.numbers[random_.between(0, last)]);
    }
    trace::TensorEntry index;
    index.key = entry().key;
    index.key.kind = trace::Kind::kIndex;
    index.dtype = tensor::DType::kInt64;
    index.shape = {tensor_.numbers.size()};
    bool first = true;
    for (const trace::MeshAxis& axis : mesh_.axes) {
      const auto held = entry().held_at.find(axis.name);
      const bool by_rows = rows_axes_.contains(axis.name);
      // Elsewhere the index may be held by more ranks than the tensor.
      if (held != entry().held_at.end() && (by_rows || random_.chance(0.5))) {
        index.held_at.emplace(*held);
      }
      if (!by_rows) continue;
      const std::size_t parts = held_of(entry(), axis).size();
      index.placements[axis.name] = std::exchange(first, false)
                                        ? index_cut(parts)
                                        : trace::Placement{trace::Shard{0, std::nullopt}};
    }
    tensor_.index = std::move(index);
  }

  trace::Placement index_cut(std::size_t parts) {
    const std::uint64_t extent = tensor_.numbers.size();
    switch (random_.between(0, 4)) {
      case 0:
        return trace::Zigzag{0};
      case 1:
        return trace::Boxes{random_boxes(random_, {{0}, {extent}}, parts)};
      case 2:
        return trace::Shard{0, std::nullopt};
      default:
        return trace::Shard{0, random_parts(random_, extent, parts)};
    }
  }

  Random& random_;
  const trace::Mesh& mesh_;
  bool maximum_;
  std::set<tensor::Shape> left_;  // shapes of the ranks' arrays after the axes so far
  RandomTensor tensor_;
  std::uint64_t rows_dim_ = 0;
  std::set<std::string> rows_axes_;
};

inline RandomTensor random_tensor(Random& random, const trace::Mesh& mesh, tensor::Shape shape,
                                  const std::string& name = "w",
                                  tensor::DType dtype = tensor::DType::kFloat64) {
  trace::TensorEntry entry;
  entry.key.name = name;
  entry.dtype = dtype;
  entry.shape = std::move(shape);
  return RandomPlacements(random, mesh, std::move(entry)).make();
}

// Fails with `problem`, unless there is none, and the whole layout of the case.
inline void check_case(const std::string& problem, const trace::Mesh& mesh,
                       const RandomTensor& tensor) {
  if (problem.empty()) {
    SUCCEED();
    return;
  }
  trace::Manifest manifest;
  manifest.meshes.emplace("", mesh);
  manifest.tensors.push_back(tensor.entry);
  if (tensor.index) manifest.tensors.push_back(*tensor.index);
  const std::string layout = trace::manifest_text(manifest);
  CAPTURE(problem, layout, tensor.numbers);
  FAIL_CHECK(problem);
}

}  // namespace ttrace::test
