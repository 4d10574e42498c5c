#include "localize/causes/near_blocks.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "measure/products.h"

namespace ttrace::localize {
namespace {

// With fewer blocks, comparing them all is faster than screening them.
constexpr std::uint64_t kFewestToScreen = 4;

double square_of(const SliceSketch& sketch) {
  double sum = 0;
  for (const double number : sketch) sum += number * number;
  return sum;
}

// Sums of `count` blocks of equal length.
std::vector<double> by_block(const std::vector<double>& numbers, std::uint64_t count) {
  const std::uint64_t length = numbers.size() / count;
  std::vector<double> sums(count, 0.0);
  for (std::uint64_t i = 0; i < count * length; ++i) sums[i / length] += numbers[i];
  return sums;
}

}  // namespace

NearBlocks::NearBlocks(std::span<const SliceSums> slices, const measure::Backend* backend)
    : backend_(backend) {
  if (slices.size() <= kFewestToScreen) return;
  const std::size_t numbers = slices.size() * kSketchSize;
  reference_.reserve(numbers);
  candidate_.reserve(numbers);
  for (const SliceSums& slice : slices) {
    reference_squares_.push_back(square_of(slice.reference));
    candidate_squares_.push_back(square_of(slice.candidate));
    reference_.insert(reference_.end(), slice.reference.begin(), slice.reference.end());
    candidate_.insert(candidate_.end(), slice.candidate.begin(), slice.candidate.end());
  }
}

std::vector<double> NearBlocks::products(std::uint64_t count) const {
  std::vector<double> sums(count * count);
  measure::Product product;
  product.m = product.n = count;
  product.k = candidate_.size() / count;
  const auto length = static_cast<std::int64_t>(product.k);
  product.a = {candidate_.data(), length, 1};
  product.b = measure::MatrixView{reference_.data(), length, 1}.transposed();
  product.c = sums.data();
  product.row_stride = static_cast<std::int64_t>(count);
  const measure::ProductBackend* const backend =
      backend_ == nullptr ? nullptr : backend_->products();
  const bool pays =
      backend != nullptr && backend->pays(product.m, product.n, product.k, /*threads=*/1);
  if (!pays || !backend->estimate(product)) measure::multiply(product);
  return sums;
}

std::vector<std::vector<std::size_t>> NearBlocks::find(std::uint64_t count) const {
  std::vector<std::vector<std::size_t>> near(count);
  if (count <= kFewestToScreen) {
    for (auto& blocks : near) {
      blocks.resize(count);
      std::iota(blocks.begin(), blocks.end(), 0);
    }
    return near;
  }
  // |c - r|² = |c|² + |r|² - 2c·r. Each of the three sums of k terms, in whatever order, is off by
  // at most 2k·2⁻⁵³ of the two squares together, and so is the distance that is decided on; the
  // rest covers the additions here.
  const std::vector<double> of_candidate = by_block(candidate_squares_, count);
  const std::vector<double> of_reference = by_block(reference_squares_, count);
  const std::vector<double> both = products(count);
  const std::uint64_t numbers = candidate_.size() / count;  // of a block
  const double terms = 8 * static_cast<double>(numbers + 16);
  const auto error = [&](double squares) {
    return terms * (0x1p-53 * squares + std::numeric_limits<double>::denorm_min());
  };
  for (std::uint64_t i = 0; i < count; ++i) {
    const auto squares = [&](std::uint64_t j) { return of_candidate[i] + of_reference[j]; };
    const auto distance = [&](std::uint64_t j) { return squares(j) - 2 * both[i * count + j]; };
    double least = std::numeric_limits<double>::infinity();
    double second = least;
    for (std::uint64_t j = 0; j < count; ++j) {
      const double most = distance(j) + error(squares(j));
      if (most < least) {
        second = least;
        least = most;
      } else if (most < second) {
        second = most;
      }
    }
    for (std::uint64_t j = 0; j < count; ++j) {
      const bool is_farther = distance(j) - error(squares(j)) > second;
      if (!is_farther || j == i) near[i].push_back(j);
    }
  }
  return near;
}

}  // namespace ttrace::localize
