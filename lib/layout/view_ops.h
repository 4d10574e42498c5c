// Tensors made of others, so that two frameworks' tensors meet. All throw an input error if the
// shapes do not allow it, naming them.
#pragma once

#include <cstdint>
#include <vector>

#include "layout/view.h"

namespace ttrace::layout {

// One after the other along `dim`; with `groups` g, every part is cut into g equal pieces there,
// and the first pieces of all parts come first, then the second ones (query, key and value of one
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

}  // namespace ttrace::layout
