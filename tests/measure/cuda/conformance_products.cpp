// Products of matrices against those of the CPU.
#include "measure/cuda/conformance_products.h"

#include "measure/cuda/conformance_data.h"
#include "measure/products.h"

namespace ttrace::test {
namespace {

using measure::MatrixView;
using measure::Product;

// A matrix with gaps between its lines, stored by rows, by columns, or with steps of 2 both ways.
class Matrix {
 public:
  enum class Order { kRows, kColumns, kSpread };

  Matrix(Draw& draw, std::uint64_t rows, std::uint64_t columns, Order order, DType dtype,
         Pattern pattern) {
    const std::uint64_t lines = order == Order::kColumns ? columns : rows;
    const std::uint64_t length = order == Order::kColumns ? rows : columns;
    const std::uint64_t step = order == Order::kSpread ? 2 : 1;
    const std::uint64_t apart = length * step + 3;
    numbers_.resize(lines * apart + 1);
    for (double& number : numbers_) {
      number = tensor::round_to(dtype, draw.value(pattern));
      if (pattern == Pattern::kAnyBits) number = std::bit_cast<double>(draw.bits());
    }
    const auto line = static_cast<std::int64_t>(apart);
    const auto element = static_cast<std::int64_t>(step);
    view_ = order == Order::kColumns ? MatrixView{numbers_.data(), element, line}
                                     : MatrixView{numbers_.data(), line, element};
  }

  const MatrixView& view() const { return view_; }

 private:
  std::vector<double> numbers_;
  MatrixView view_;
};

bool same(const std::vector<double>& a, const std::vector<double>& b) {
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (!(a[i] == b[i] || (a[i] != a[i] && b[i] != b[i]))) return false;
  }
  return true;
}

}  // namespace

Conformance check_products(const measure::ProductBackend& backend, std::uint64_t seed) {
  using enum Matrix::Order;
  Conformance done;
  Draw draw(seed);
  const auto check = [&](std::uint64_t m, std::uint64_t n, std::uint64_t k, Matrix::Order of_a,
                         Matrix::Order of_b, DType dtype, Pattern pattern, bool add) {
    const Matrix a(draw, m, k, of_a, dtype, pattern);
    const Matrix b(draw, k, n, of_b, dtype, pattern);
    const std::uint64_t row_stride = n + 5;
    std::vector<double> expected(m * row_stride);
    for (double& number : expected) number = draw.symmetric();
    std::vector<double> found = expected;
    Product product{
        m, n, k, a.view(), b.view(), expected.data(), static_cast<std::int64_t>(row_stride), add};
    measure::multiply(product);
    product.c = found.data();
    ++done.cases;
    const std::string what =
        concat("product of ", tensor::dtype_short_name(dtype), ", ", m, " x ", n, " x ", k, ", ",
               pattern_name(pattern), ", orders ", static_cast<int>(of_a), " and ",
               static_cast<int>(of_b), add ? ", added" : "");
    if (!backend.multiply(product)) return done.failures.push_back(what + ": not computed");
    if (!same(expected, found)) done.failures.push_back(what + ": other bits");
  };
  for (const auto& [m, n, k] : {std::array<std::uint64_t, 3>{1, 1, 1},
                                {3, 70, 17},
                                {129, 5, 33},
                                {130, 65, 47},
                                {200, 130, 16}}) {
    for (const Matrix::Order of_a : {kRows, kColumns, kSpread}) {
      for (const Matrix::Order of_b : {kRows, kColumns}) {
        for (const DType dtype : {DType::kFloat32, DType::kFloat64}) {
          check(m, n, k, of_a, of_b, dtype, Pattern::kOrdinary, (m + n + k) % 2 == 0);
        }
      }
    }
  }
  for (const Pattern pattern : {Pattern::kSprinkled, Pattern::kAnyBits, Pattern::kNothing}) {
    check(37, 70, 29, kRows, kColumns, DType::kFloat32, pattern, false);
    check(37, 70, 29, kColumns, kRows, DType::kFloat64, pattern, true);
  }
  check(9, 11, 1500, kRows, kRows, DType::kBFloat16, Pattern::kOrdinary, true);
  return done;
}

}  // namespace ttrace::test
