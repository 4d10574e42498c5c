#include "routing/element_flips.h"

#include <cmath>
#include <limits>
#include <vector>

#include "support/catch.h"
#include "tensor/dtype.h"

namespace ttrace::routing::element_flips_test {
namespace {

constexpr double kNear = 1e-7;
constexpr double kLarge = 1e-4;

// Two samples of four elements each.
struct Values {
  std::vector<double> argument_before{3, 2, 1, 0.5, 6, 6, 4, 1};
  std::vector<double> argument_after = argument_before;
  std::vector<double> gradient_before{1, -1, 0.5, 0, 0, 0, 2, 1};
  std::vector<double> gradient_after = gradient_before;

  // Moves the argument a little everywhere, as another run does, but not off its limit of 6.
  Values() {
    for (double& value : argument_after) value += value < 6 ? kNear : 0;
  }
};

// `equal`: elements of further samples, of which nothing differs.
FlippedElements flips_of(const Values& values, const std::vector<double>& equal = {}) {
  ElementFlips flips({2 + equal.size() / 4, 4}, kLarge, tensor::epsilon(tensor::DType::kFloat32));
  flips.add({values.argument_before, values.argument_after, values.gradient_before,
             values.gradient_after});
  flips.add({equal, equal, equal, equal});
  return flips.found();
}

TEST_CASE("nothing flips where nothing but rounding differs") {
  Values values;
  values.gradient_after[0] += 1e-6;
  const FlippedElements found = flips_of(values);
  CHECK(found.total() == 0);
  CHECK_FALSE(found.by_rounding());
  CHECK(found.rest == Approx(1e-6));
}

TEST_CASE("a sign that flips explains the gradient there") {
  Values values;
  values.argument_before[3] = -kNear;
  values.argument_after[3] = kNear;
  values.gradient_after[3] = 0.25;
  const FlippedElements found = flips_of(values);
  CHECK(found.signs == 1);
  CHECK(found.by_rounding());
  CHECK(found.moved == Approx(0.25));
  CHECK(found.rest == 0);
}

TEST_CASE("a sign that flips explains nothing where the gradient is not bent") {
  Values values;
  for (const std::size_t e : {0, 1, 2, 3, 6, 7}) {
    values.argument_before[e] = e % 2 == 0 ? kNear : -kNear;
    values.argument_after[e] = -values.argument_before[e];
    values.gradient_before[e] = 1 + static_cast<double>(e);
    values.gradient_after[e] = 1.05 * values.gradient_before[e];
  }
  const FlippedElements smooth = flips_of(values, {1, 2, 3, 4});
  CHECK(smooth.total() == 0);
  CHECK(smooth.moved == 0);
  SECTION("zero on both sides") {
    for (const std::size_t e : {0, 1, 2, 3, 6, 7}) {
      values.gradient_before[e] = values.gradient_after[e] = 0;
    }
    CHECK_FALSE(flips_of(values).by_rounding());
  }
  SECTION("zero where the argument is positive") {
    values.gradient_before[0] = 0;
    const FlippedElements found = flips_of(values);
    CHECK(found.signs == 0);
    CHECK(found.rest > 1);
  }
}

TEST_CASE("a bend by one multiple shows which kink it is, and one by any does not") {
  Values values;
  const auto bend = [&values](double dull, std::size_t e) {
    values.argument_before[e] = kNear;
    values.argument_after[e] = -kNear;
    values.gradient_before[e] = 1 + static_cast<double>(e);
    values.gradient_after[e] = dull * values.gradient_before[e];
  };
  const auto found = [&](ElementFlips::Allowed allowed) {
    ElementFlips flips({2, 4}, kLarge, tensor::epsilon(tensor::DType::kFloat32));
    flips.add({values.argument_before, values.argument_after, values.gradient_before,
               values.gradient_after});
    return flips.found(allowed);
  };
  for (const double multiple : {0.01, -1.0, 0.25, 1.7}) {
    for (const std::size_t e : {0, 2, 3, 7}) bend(multiple, e);
    CHECK(found(ElementFlips::Allowed::kKnown).signs == 4);
    CHECK(found(ElementFlips::Allowed::kKnown).known);
  }
  for (const std::size_t e : {0, 2, 3, 7}) bend(0.1 * static_cast<double>(e + 1), e);
  CHECK(found(ElementFlips::Allowed::kKnown).total() == 0);
  CHECK(found(ElementFlips::Allowed::kAny).signs == 4);
  CHECK_FALSE(found(ElementFlips::Allowed::kAny).known);
  for (const std::size_t e : {0, 2, 3, 7}) bend(1 + 0.01 * static_cast<double>(e), e);
  CHECK(found(ElementFlips::Allowed::kAny).total() == 0);
}

TEST_CASE("flips far from zero are not near it by their own distance") {
  // Many elements lie on the other side by a bug, and nothing else differs by more than rounding.
  Values values;
  for (const std::size_t e : {0, 1, 2}) {
    values.argument_before[e] = 0.5;
    values.argument_after[e] = -0.5;
    values.gradient_before[e] = 1;
    values.gradient_after[e] = 0;
  }
  CHECK(flips_of(values).signs == 3);
  CHECK_FALSE(flips_of(values).by_rounding());
}

TEST_CASE("a limit that one run alone reaches explains the gradient there") {
  Values values;
  values.argument_before[6] = 6;
  values.argument_after[6] = 6 - kNear;
  values.gradient_before[6] = 0;
  SECTION("healthy") {
    const FlippedElements found = flips_of(values);
    CHECK(found.limits == 1);
    CHECK(found.by_rounding());
    CHECK(found.moved == Approx(2));
    CHECK(found.rest == 0);
  }
  SECTION("far from it") {
    // It takes the noise of many elements along.
    std::vector<double> others(1000, 1);
    values.argument_after[6] = 5;
    CHECK(flips_of(values, others).limits == 0);
  }
  SECTION("the gradient vanishes in neither run") {
    values.gradient_before[6] = 1;
    CHECK(flips_of(values).limits == 0);
  }
  SECTION("held by no other element") {
    values.argument_before[4] = values.argument_before[5] = 5;
    values.argument_after[4] = values.argument_after[5] = 5;
    CHECK(flips_of(values).limits == 0);
  }
}

// Rounding made element 1 of a window the maximum, and not element 0.
Values moved_maximum() {
  Values values;
  values.argument_before[0] = 2 + kNear;
  values.argument_after[0] = 2 - kNear;
  values.gradient_after[0] = 0;
  values.gradient_after[1] = values.gradient_before[1] + 1;
  return values;
}

TEST_CASE("a maximum that moves between equals takes its gradient along") {
  Values values = moved_maximum();
  SECTION("healthy") {
    const FlippedElements found = flips_of(values);
    CHECK(found.maxima == 2);
    CHECK(found.by_rounding());
    CHECK(found.moved == Approx(std::sqrt(2.0)));
    CHECK(found.rest == 0);
  }
  SECTION("equal in both runs") {
    values.argument_before[0] = values.argument_before[1];
    values.argument_after[0] = values.argument_after[1];
    CHECK(flips_of(values).by_rounding());
  }
  SECTION("in the same order in both runs") {
    values.argument_after[0] = values.argument_after[1] + kNear;
    CHECK(flips_of(values).maxima == 0);
  }
  SECTION("far apart") {
    values.argument_before[0] = 2.1;
    values.argument_after[0] = 2.1;
    CHECK(flips_of(values).maxima == 0);
  }
  SECTION("something of the gradient is lost") {
    values.gradient_after[1] -= 0.1;
    const FlippedElements found = flips_of(values);
    CHECK(found.maxima == 0);
    CHECK(found.rest == Approx(std::sqrt(1 + 0.81)));
  }
  SECTION("in another sample") {
    values.gradient_after[1] = values.gradient_before[1];
    values.argument_before[6] = 2 - kNear;
    values.argument_after[6] = 2 + kNear;
    values.gradient_after[6] = values.gradient_before[6] + 1;
    CHECK(flips_of(values).maxima == 0);
  }
}

TEST_CASE("what is not finite explains nothing") {
  Values values = moved_maximum();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  SECTION("of the gradient") {
    values.gradient_after[2] = nan;
    CHECK_FALSE(flips_of(values).rest <= 1);
  }
  SECTION("of the argument") {
    values.argument_after[2] = nan;
    CHECK_FALSE(flips_of(values).by_rounding());
  }
  SECTION("of many arguments in both runs") {
    ElementFlips flips({1, 64}, kLarge, tensor::epsilon(tensor::DType::kFloat32));
    std::vector<double> argument(64, nan);
    for (std::size_t e = 0; e < 64; e += 3) argument[e] = static_cast<double>(e % 7);
    const std::vector<double> before(64, 0);
    const std::vector<double> after(64, 1);
    flips.add({argument, argument, before, after});
    CHECK(flips.found().maxima == 0);
    CHECK(flips.found().rest == Approx(8));
  }
}

}  // namespace
}  // namespace ttrace::routing::element_flips_test
