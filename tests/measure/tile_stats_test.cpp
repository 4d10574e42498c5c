#include "measure/tile_stats.h"

#include <algorithm>
#include <cmath>
#include <sstream>

#include "measure/cpu/cpu_backend.h"
#include "property/random.h"

namespace ttrace::measure::tile_stats_test {
namespace {

using test::Random;

TileStats stats_of(const std::vector<double>& reference, const std::vector<double>& candidate) {
  return box_stats(tensor::whole({reference.size()}), reference, candidate);
}

// Every member as text, doubles with all their bits.
std::string spelled(const TileStats& stats) {
  std::ostringstream text;
  text << std::hexfloat << stats.elements << " " << stats.finite << " " << stats.sum_d2 << " "
       << stats.sum_d << " " << stats.sum_r2 << " " << stats.sum_c2 << " " << stats.sum_rc << " "
       << stats.unequal << " " << stats.nonfinite_reference << " " << stats.nonfinite_candidate
       << " " << stats.nonfinite_equal << " " << stats.nonfinite_different;
  if (stats.largest) {
    text << " largest " << stats.largest->difference << " " << stats.largest->reference << " "
         << stats.largest->candidate << " " << tensor::to_string(stats.largest->at);
  }
  if (stats.first_nonfinite_difference) {
    text << " first " << tensor::to_string(*stats.first_nonfinite_difference);
  }
  return text.str();
}

TEST_CASE("merging with nothing changes nothing") {
  Random random(3);
  std::vector<double> candidate = random.values(100);
  candidate[50] = std::nan("");
  const TileStats some = stats_of(random.values(100), candidate);
  TileStats before;
  before.merge(some);
  CHECK(spelled(before) == spelled(some));
  TileStats after = some;
  after.merge(TileStats{});
  CHECK(spelled(after) == spelled(some));
}

TEST_CASE("merging the tiles of a box gives the box") {
  Random random(4);
  const std::vector<double> r = random.values(10000);
  std::vector<double> c = random.values(10000);
  c[123] = std::nan("");
  c[7000] = std::nan("");
  TileStats merged;
  for (std::size_t start = 0; start < 10000; start += 4096) {
    const std::size_t count = std::min<std::size_t>(4096, 10000 - start);
    merged.merge(box_stats({{start}, {count}}, std::span(r).subspan(start, count),
                           std::span(c).subspan(start, count)));
  }
  CHECK(spelled(merged) == spelled(stats_of(r, c)));
}

TEST_CASE("the earlier of equal largest differences stays") {
  TileStats first;
  first.largest = Extreme{2, 0, 2, {1}};
  TileStats second;
  second.largest = Extreme{2, 0, -2, {9}};
  TileStats merged = first;
  merged.merge(second);
  CHECK(merged.largest->at == tensor::Shape{1});
  second.largest->difference = 3;
  merged.merge(second);
  CHECK(merged.largest->at == tensor::Shape{9});
}

TEST_CASE("the earlier of non-finite differences stays") {
  TileStats merged;
  TileStats later;
  later.first_nonfinite_difference = tensor::Shape{5};
  merged.merge(later);
  later.first_nonfinite_difference = tensor::Shape{6};
  merged.merge(later);
  CHECK(merged.first_nonfinite_difference == tensor::Shape{5});
}

TEST_CASE("norms are roots of the sums") {
  const TileStats stats = stats_of({3, 4, 0}, {3, 4, 12});
  CHECK(difference_norm(stats) == 12);
  CHECK(reference_norm(stats) == 5);
  CHECK(candidate_norm(stats) == 13);
  CHECK(difference_norm(TileStats{}) == 0);
}

TEST_CASE("the difference norm is positive where its squares underflow") {
  const TileStats stats = stats_of({1e-200, 0}, {3e-200, 1e-200});
  CHECK(stats.sum_d2 == 0);
  CHECK(difference_norm(stats) == 3e-200 - 1e-200);
  const TileStats least = stats_of({0}, {5e-324});
  CHECK(difference_norm(least) == 5e-324);
}

TEST_CASE("the fitted scale and its residual are those of least squares") {
  Random random(5);
  for (const double scale : {2.0, 0.5, -1.0, 1.0, 1.0001, 0.125}) {
    CAPTURE(scale);
    const std::vector<double> r = random.values(1000);
    std::vector<double> c = random.values(1000);
    for (std::size_t i = 0; i < r.size(); ++i) c[i] = scale * r[i] + 1e-3 * c[i];
    long double rc = 0, r2 = 0, residual = 0;
    for (std::size_t i = 0; i < r.size(); ++i) {
      rc += static_cast<long double>(r[i]) * c[i];
      r2 += static_cast<long double>(r[i]) * r[i];
    }
    for (std::size_t i = 0; i < r.size(); ++i) {
      const long double d = c[i] - rc / r2 * r[i];
      residual += d * d;
    }
    const auto fit = fit_scale(stats_of(r, c));
    REQUIRE(fit.has_value());
    CHECK(fit->scale == Catch::Approx(static_cast<double>(rc / r2)).epsilon(1e-13));
    CHECK(fit->residual_norm ==
          Catch::Approx(std::sqrt(static_cast<double>(residual))).epsilon(1e-6));
  }
}

TEST_CASE("an exact multiple leaves no residual") {
  const std::vector<double> r{1, -2, 3.5};
  for (const double scale : {2.0, 0.5, 4.0, 1.0, 0.0}) {
    CAPTURE(scale);
    std::vector<double> c = r;
    for (double& value : c) value *= scale;
    const auto fit = fit_scale(stats_of(r, c));
    REQUIRE(fit.has_value());
    CHECK(fit->scale == scale);
    CHECK(fit->residual_norm == 0);
  }
}

TEST_CASE("nothing is fitted to a reference of zeros") {
  CHECK_FALSE(fit_scale(stats_of({0, 0}, {1, 2})).has_value());
  CHECK_FALSE(fit_scale(TileStats{}).has_value());
}

TEST_CASE("the cosine is that of the angle") {
  CHECK(cosine(stats_of({1, 0}, {0, 2})) == 0.0);
  CHECK(*cosine(stats_of({1, 2}, {2, 4})) == Catch::Approx(1).epsilon(1e-15));
  CHECK(*cosine(stats_of({1, 2}, {-1, -2})) == Catch::Approx(-1).epsilon(1e-15));
  CHECK(*cosine(stats_of({1, 0}, {1, 1})) == Catch::Approx(std::sqrt(0.5)).epsilon(1e-15));
  CHECK_FALSE(cosine(stats_of({0, 0}, {1, 1})).has_value());
  CHECK_FALSE(cosine(stats_of({1, 1}, {0, 0})).has_value());
}

}  // namespace
}  // namespace ttrace::measure::tile_stats_test
