// Reads the patterns of a specification, and what its tensors are written with too. All functions
// throw an input error at the place in the file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/strict_json.h"
#include "specification/specification.h"

namespace ttrace::specification {

Pattern pattern_from(const base::JsonCursor& cursor, const SpecificationLimits& limits);

tensor::DType dtype_from(const base::JsonCursor& cursor);
// -1 is kAnyExtent.
tensor::Shape shape_from(const base::JsonCursor& cursor);
// A number, true, false, "nan", "inf" or "-inf".
double number_from(const base::JsonCursor& cursor);
// At most `most` of them.
std::vector<double> numbers_from(const base::JsonCursor& cursor, std::size_t most);
// A list of numbers below `end`, called `what`.
std::vector<std::uint32_t> references_from(const base::JsonCursor& cursor, std::uint64_t end,
                                           std::string_view what);

}  // namespace ttrace::specification
