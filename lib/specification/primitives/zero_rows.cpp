#include "specification/primitives/zero_rows.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace ttrace::specification {
namespace {

using Lines = std::optional<std::vector<std::uint64_t>>;
using measure::MatrixView;

// Smaller products take no longer than the search.
constexpr std::uint64_t kFewestProducts = std::uint64_t{1} << 20U;

const double* at(const MatrixView& matrix, std::uint64_t row, std::uint64_t column) {
  return matrix.at(row, column).data;
}

// The rows of a matrix that are not zero; nothing if these are more than half. Reads along the
// memory.
Lines non_zero_rows(const MatrixView& matrix, std::uint64_t rows, std::uint64_t columns) {
  std::vector<std::uint64_t> found;
  if (std::abs(matrix.column_stride) <= std::abs(matrix.row_stride)) {
    for (std::uint64_t r = 0; r < rows && 2 * found.size() <= rows; ++r) {
      for (std::uint64_t c = 0; c < columns; ++c) {
        if (*at(matrix, r, c) == 0) continue;
        found.push_back(r);
        break;
      }
    }
  } else {
    std::vector<std::uint64_t> open(rows);
    for (std::uint64_t r = 0; r < rows; ++r) open[r] = r;
    for (std::uint64_t c = 0; c < columns && 2 * found.size() <= rows; ++c) {
      std::erase_if(open, [&](std::uint64_t r) {
        if (*at(matrix, r, c) == 0) return false;
        found.push_back(r);
        return true;
      });
    }
    std::sort(found.begin(), found.end());
  }
  if (2 * found.size() > rows) return std::nullopt;
  return found;
}

bool is_finite(const MatrixView& matrix, std::uint64_t rows, std::uint64_t columns) {
  for (std::uint64_t r = 0; r < rows; ++r) {
    for (std::uint64_t c = 0; c < columns; ++c) {
      if (!std::isfinite(*at(matrix, r, c))) return false;
    }
  }
  return true;
}

// The elements of these rows and columns, dense.
std::vector<double> chosen(const MatrixView& matrix, const std::vector<std::uint64_t>& rows,
                           const std::vector<std::uint64_t>& columns) {
  std::vector<double> dense;
  dense.reserve(rows.size() * columns.size());
  for (const std::uint64_t r : rows) {
    for (const std::uint64_t c : columns) dense.push_back(*at(matrix, r, c));
  }
  return dense;
}

std::vector<std::uint64_t> range(std::uint64_t begin, std::uint64_t end) {
  std::vector<std::uint64_t> numbers;
  for (std::uint64_t i = begin; i < end; ++i) numbers.push_back(i);
  return numbers;
}

}  // namespace

std::optional<NonZeroParts> non_zero_parts(const ProductOfMatrices& product) {
  const auto& [m, n, k, a, b] = product;
  if (m * n * k < kFewestProducts) return std::nullopt;
  NonZeroParts parts;
  parts.rows = non_zero_rows(a, m, k);
  parts.terms = non_zero_rows(a.transposed(), k, m);
  if (parts.rows || parts.terms) {
    if (!is_finite(b, k, n)) return std::nullopt;
    return parts;
  }
  parts.terms = non_zero_rows(b, k, n);
  if (!parts.terms || !is_finite(a, m, k)) return std::nullopt;
  return parts;
}

void multiply_non_zero(const ProductOfMatrices& product, const NonZeroParts& parts,
                       const ResultBlock& block, double* c) {
  const std::uint64_t n = product.n;
  const std::uint64_t columns = block.column_end - block.column_begin;
  std::vector<std::uint64_t> rows = range(block.row_begin, block.row_end);
  if (parts.rows) {
    for (std::uint64_t& row : rows) row = (*parts.rows)[row];
  }
  const std::vector<std::uint64_t> terms = parts.terms ? *parts.terms : range(0, product.k);
  if (rows.empty() || terms.empty()) return;
  const std::vector<double> left = chosen(product.a, rows, terms);
  const MatrixView of_left{left.data(), static_cast<std::int64_t>(terms.size()), 1};
  std::vector<double> right;
  MatrixView of_right = product.b.at(0, block.column_begin);
  if (parts.terms) {
    right = chosen(product.b, terms, range(block.column_begin, block.column_end));
    of_right = {right.data(), static_cast<std::int64_t>(columns), 1};
  }
  std::vector<double> made(rows.size() * columns);
  measure::multiply(rows.size(), columns, terms.size(), of_left, of_right, made.data(),
                    static_cast<std::int64_t>(columns), false);
  for (std::uint64_t r = 0; r < rows.size(); ++r) {
    std::copy_n(made.data() + r * columns, columns, c + rows[r] * n + block.column_begin);
  }
}

}  // namespace ttrace::specification
