// A logical tensor as a comparison sees it: one that a trace has, or one made of several. The room
// `measure` reads their elements.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/heap_optional.h"
#include "tensor/box.h"
#include "trace/manifest.h"

namespace ttrace::layout {

struct View;
using ViewPtr = std::shared_ptr<const View>;

// A tensor of the trace's manifest, or one with another layout over the same datasets.
struct Stored {
  std::shared_ptr<const trace::TensorEntry> entry;
};

// A tensor made of boxes of other tensors. Elements outside all tiles are 0.
struct Mosaic {
  struct Tile {
    tensor::Box target;  // in the new tensor
    ViewPtr source;
    tensor::Shape origin;  // of the box of the same extent in the source
  };
  std::vector<Tile> tiles;  // disjoint
};

// Elementwise sum times `factor`; all terms have the view's shape.
struct Sum {
  std::vector<ViewPtr> terms;
  double factor = 1;
};

// Dimension i is dimension axes[i] of the source.
struct Transposed {
  ViewPtr source;
  std::vector<std::size_t> axes;
};

struct View {
  trace::TensorKey key;
  tensor::DType dtype = tensor::DType::kFloat32;
  tensor::Shape shape;
  std::optional<tensor::DType> computed_in;
  std::optional<std::uint64_t> order;
  base::HeapOptional<trace::Microbatches> microbatches;
  std::variant<Stored, Mosaic, Sum, Transposed> how;
  // Indices of one dimension that trimmed() took from this tensor, or from what it is made of.
  std::uint64_t left_out = 0;
};

// The tensor itself. `entry` must outlive the view.
ViewPtr view_of(const trace::TensorEntry& entry);

// Key, dtype, order and precision of a tensor made of `parts` (at least one): those of the first
// part, computed in the coarsest precision of any.
View made_of(const std::vector<ViewPtr>& parts);

// Returns what distinguishes the key of a part from that of the whole: "mb 1",
// "layers.0.q.weight", or nothing.
std::string describe_part(const trace::TensorKey& part, const trace::TensorKey& whole);

// Returns the stored tensors that the view is made of, in order; at least one.
std::vector<const trace::TensorEntry*> stored_in(const View& view);

// Returns the same view over changed entries.
ViewPtr with_entries(const ViewPtr& view,
                     const std::function<trace::TensorEntry(const trace::TensorEntry&)>& change);

// Tensors made of others, so that two frameworks' tensors can be compared. All throw an input error
// with the shapes if these do not allow it.

// One after the other along `dim`; with `groups` g, every part is cut into g equal boxes there,
// and the first boxes of all parts come first, then the second ones (query, key and value of one
// head group after the other).
ViewPtr concatenated(const std::vector<ViewPtr>& parts, std::uint64_t dim, std::uint64_t groups);

// The inverse: parts of the given sizes along `dim` (of `count` equal ones if there are none).
std::vector<ViewPtr> split(const ViewPtr& whole, std::uint64_t dim, std::uint64_t count,
                           std::vector<std::uint64_t> sizes, std::uint64_t groups);

// The first `size` elements of `dim`.
ViewPtr trimmed(const ViewPtr& view, std::uint64_t dim, std::uint64_t size);

// Zeros after the last element of `dim`, up to `size`.
ViewPtr padded(const ViewPtr& view, std::uint64_t dim, std::uint64_t size);

// Dimension i is dimension axes[i] of `view`.
ViewPtr transposed(const ViewPtr& view, const std::vector<std::size_t>& axes);

// Tensors of single micro-batches joined into one, so that a run with one big batch is compared
// with a run with many small ones.
struct Composed {
  ViewPtr view;         // or null
  std::string problem;  // why it is
};

// The keys of the tensors that `whole`, which must name its micro-batches, is made of, in order.
std::vector<trace::TensorKey> part_keys(const View& whole);

// The tensor that `whole` would be if it were made of `parts`, which have the keys of part_keys.
Composed compose_microbatches(const View& whole, const std::vector<ViewPtr>& parts);

}  // namespace ttrace::layout
