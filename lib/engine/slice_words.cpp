#include "engine/slice_words.h"

#include "base/concat.h"
#include "base/number_text.h"

namespace ttrace::engine {
namespace {

using base::concat;
using verdict::Slice;

std::string what_words(const Slice& slice, const tensor::Shape& shape) {
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

std::string error_words(const Slice& slice) {
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

std::string slices_words(const verdict::SliceJudgement& slices, const tensor::Shape& shape) {
  if (slices.found.empty()) return "";
  const Slice& worst = slices.found.front();
  std::string text = concat(what_words(worst, shape), ": ", error_words(worst));
  if (slices.beyond > 1) {
    text += concat("; and ", base::plural(slices.beyond - 1, "more part"));
  }
  return text;
}

}  // namespace ttrace::engine
