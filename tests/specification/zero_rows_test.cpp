#include "specification/primitives/zero_rows.h"

#include <limits>

#include "specification/primitives/noise.h"
#include "specification/primitives/products.h"
#include "specification/specifications.h"
#include "support/catch.h"

namespace ttrace::specification::zero_rows_test {
namespace {

constexpr std::uint64_t kRows = 96;
constexpr std::uint64_t kTerms = 128;
constexpr std::uint64_t kColumns = 160;

enum class Zeros { kNone, kInRows, kInTerms, kInBoth };

// [matrices, rows, columns] of random numbers; each matrix keeps every matrices-th row or column.
Value masked(std::uint64_t matrices, std::uint64_t rows, std::uint64_t columns, Zeros zeros,
             std::uint64_t seed) {
  const Noise noise(seed);
  std::vector<double> numbers(matrices * rows * columns);
  for (std::uint64_t i = 0; i < numbers.size(); ++i) {
    const std::uint64_t matrix = i / (rows * columns);
    const bool in_row = i / columns % rows % matrices == matrix;
    const bool in_column = i % columns % matrices == matrix;
    const bool kept = zeros == Zeros::kNone || (zeros == Zeros::kInRows && in_row) ||
                      (zeros == Zeros::kInTerms && in_column) ||
                      (zeros == Zeros::kInBoth && in_row && in_column);
    numbers[i] = kept ? noise.at(i) : 0;
  }
  return Value::of({matrices, rows, columns}, std::move(numbers));
}

// Σ_k ascending, rounded after every product and every addition.
std::vector<double> summed(const Value& x, const Value& y, std::uint64_t matrices) {
  std::vector<double> sums(matrices * kRows * kColumns);
  for (std::uint64_t i = 0; i < sums.size(); ++i) {
    const std::uint64_t matrix = i / (kRows * kColumns);
    const MatrixView a = matrix_at(x, matrix);
    const MatrixView b = matrix_at(y, y.dimensions() == 3 ? matrix : 0);
    for (std::uint64_t k = 0; k < kTerms; ++k) {
      const double product = *a.at(i / kColumns % kRows, k).data * *b.at(k, i % kColumns).data;
      sums[i] += product;
    }
  }
  return sums;
}

bool same_bits(const Value& value, const std::vector<double>& numbers) {
  const Value dense = value.to_dense();
  return std::equal(numbers.begin(), numbers.end(), dense.data(),
                    [](double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); });
}

ProductOfMatrices first_of(const Value& x, const Value& y) {
  return {kRows, kColumns, kTerms, matrix_at(x, 0), matrix_at(y, 0)};
}

TEST_CASE("a product without its zeros has the bits of the whole product") {
  const Value y = masked(1, kTerms, kColumns, Zeros::kNone, 2);
  for (const Zeros zeros : {Zeros::kNone, Zeros::kInRows, Zeros::kInTerms, Zeros::kInBoth}) {
    for (const std::uint64_t matrices : {1, 2, 5}) {
      CAPTURE(static_cast<int>(zeros), matrices);
      const Value x = masked(matrices, kRows, kTerms, zeros, 1);
      const std::vector<double> expected = summed(x, y.reshaped({kTerms, kColumns}), matrices);
      for (const unsigned threads : {1U, 3U}) {
        CHECK(same_bits(product_of(x, y, {matrices, kRows, kColumns}, test::on_threads(threads)),
                        expected));
      }
      // The same numbers, column by column in memory.
      const std::size_t turned[] = {0, 2, 1};
      const Value other = x.permuted(turned).to_dense().permuted(turned);
      CHECK(same_bits(product_of(other, y, {matrices, kRows, kColumns}, test::on_threads(2)),
                      expected));
    }
  }
}

TEST_CASE("what is mostly zero is left out, on either side") {
  const Value dense = masked(1, kTerms, kColumns, Zeros::kNone, 2);
  const auto rows = non_zero_parts(first_of(masked(4, kRows, kTerms, Zeros::kInRows, 1), dense));
  REQUIRE(rows);
  CHECK(rows->rows->size() == kRows / 4);
  CHECK_FALSE(rows->terms);
  const auto terms = non_zero_parts(first_of(masked(4, kRows, kTerms, Zeros::kInTerms, 1), dense));
  REQUIRE(terms);
  CHECK_FALSE(terms->rows);
  CHECK(terms->terms->size() == kTerms / 4);
  const Value x = masked(1, kRows, kTerms, Zeros::kNone, 1);
  const auto right = non_zero_parts(first_of(x, masked(4, kTerms, kColumns, Zeros::kInRows, 2)));
  REQUIRE(right);
  CHECK(right->terms->size() == kTerms / 4);
  CHECK_FALSE(non_zero_parts(first_of(x, dense)));
  // A row of zeros among others is not worth it.
  CHECK_FALSE(non_zero_parts(first_of(masked(1, kRows, kTerms, Zeros::kInRows, 1), dense)));
}

TEST_CASE("zero times a number that is not finite stays NaN") {
  for (const double number :
       {std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()}) {
    std::vector<double> numbers(kTerms * kColumns, 1);
    numbers[3 * kColumns + 5] = number;
    const Value y = Value::of({kTerms, kColumns}, std::move(numbers));
    for (const Zeros zeros : {Zeros::kInRows, Zeros::kInTerms}) {
      const Value x = masked(4, kRows, kTerms, zeros, 1);
      CHECK_FALSE(non_zero_parts(first_of(x, y)));
      CHECK(
          same_bits(product_of(x, y, {4, kRows, kColumns}, test::on_threads(2)), summed(x, y, 4)));
    }
  }
}

}  // namespace
}  // namespace ttrace::specification::zero_rows_test
