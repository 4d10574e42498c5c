// Cuts: some indices of one dimension of a value. Every primitive says in its entry which cuts of
// its arguments a cut of its result is computed from.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "specification/primitives/value.h"
#include "tensor/shape.h"

namespace ttrace::specification {

class Attributes;

// The indices start, start + step, ... of one dimension of a value, `count` of them.
struct Cut {
  std::size_t dim = 0;
  std::uint64_t start = 0;
  std::uint64_t step = 1;
  std::uint64_t count = 0;

  bool operator==(const Cut&) const = default;
  // The same indices of another dimension.
  Cut along(std::size_t other) const { return {other, start, step, count}; }
  Value of(const Value& whole) const;
};

// By argument that is given; nothing: the whole argument.
using ArgumentCuts = std::vector<std::optional<Cut>>;

// What a primitive's cutting rule is given. All extents are known.
struct CutCall {
  const Attributes& attributes;
  const tensor::Shape& shape;                       // of the result
  std::span<const tensor::Shape* const> arguments;  // that are given
  const Cut& cut;                                   // of the result
};

// Returns the cuts of the arguments from which the cut is computed, or nothing if the result can
// only be computed as a whole. Evaluating the primitive on these gives the cut of its whole result,
// bit for bit.
using CutRule = std::optional<ArgumentCuts> (*)(const CutCall& call);

// Rules of whole families. All arguments have the shape of the result and are cut as it is.
std::optional<ArgumentCuts> cut_alike(const CutCall& call);
// The arguments broadcast to the result.
std::optional<ArgumentCuts> cut_broadcast(const CutCall& call);
// Lines along the attribute "dim" are computed as a whole.
std::optional<ArgumentCuts> cut_across_lines(const CutCall& call);

// The cut of an argument that broadcasts to the result.
std::optional<Cut> cut_of_broadcast(const CutCall& call, const tensor::Shape& argument,
                                    const Cut& cut);

}  // namespace ttrace::specification
