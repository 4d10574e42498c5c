// Products of matrices whose rows or columns are mostly zero: of the tokens of a mixture of
// experts, a mask leaves each expert its own, and the formula multiplies all tokens by every
// expert. What is zero is left out. The result is that of the whole product to the bit, since a sum
// over k ascending (measure/products.h) is not changed by terms that are zero.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "measure/products.h"

namespace ttrace::specification {

// a [m, k] · b [k, n].
struct ProductOfMatrices {
  std::uint64_t m = 0;
  std::uint64_t n = 0;
  std::uint64_t k = 0;
  measure::MatrixView a;
  measure::MatrixView b;
};

// What is not zero in it. Without a list all counts; a list that would have more than half is none.
struct NonZeroParts {
  std::optional<std::vector<std::uint64_t>> rows;   // of a
  std::optional<std::vector<std::uint64_t>> terms;  // columns of a, rows of b
};

// Returns nothing if all counts, also because a number beside the zeros is not finite: zero times
// that is NaN. Reads little of matrices without zeros.
std::optional<NonZeroParts> non_zero_parts(const ProductOfMatrices& product);

// A block of the result: rows [begin, end) of those that count, and columns.
struct ResultBlock {
  std::uint64_t row_begin = 0;
  std::uint64_t row_end = 0;
  std::uint64_t column_begin = 0;
  std::uint64_t column_end = 0;
};

// Writes a block to `c`, [m, n] of zeros.
void multiply_non_zero(const ProductOfMatrices& product, const NonZeroParts& parts,
                       const ResultBlock& block, double* c);

}  // namespace ttrace::specification
