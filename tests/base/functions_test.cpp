#include "base/functions.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "support/catch.h"

namespace ttrace::base::functions_test {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();
constexpr double kNoNumber = std::numeric_limits<double>::quiet_NaN();
constexpr double kLeast = std::numeric_limits<double>::denorm_min();

struct Function {
  double (*of_one)(double) = nullptr;
  double (*of_two)(double, double) = nullptr;
  double most = 0;  // units in the last place, as functions.h says
};
const std::map<std::string, Function> kFunctions{
    {"exponential", {exponential, nullptr, 1}},
    {"logarithm", {logarithm, nullptr, 0.51}},
    {"decimal_logarithm", {decimal_logarithm, nullptr, 0.51}},
    {"logarithm_of_1_plus", {logarithm_of_1_plus, nullptr, 0.51}},
    {"sine", {sine, nullptr, 0.75}},
    {"cosine", {cosine, nullptr, 0.75}},
    {"hyperbolic_tangent", {hyperbolic_tangent, nullptr, 0.75}},
    {"arctangent", {arctangent, nullptr, 1.5}},
    {"arcsine", {arcsine, nullptr, 2}},
    {"arccosine", {arccosine, nullptr, 2}},
    {"hyperbolic_sine", {hyperbolic_sine, nullptr, 3}},
    {"hyperbolic_cosine", {hyperbolic_cosine, nullptr, 3}},
    {"inverse_hyperbolic_sine", {inverse_hyperbolic_sine, nullptr, 2}},
    {"inverse_hyperbolic_cosine", {inverse_hyperbolic_cosine, nullptr, 2}},
    {"inverse_hyperbolic_tangent", {inverse_hyperbolic_tangent, nullptr, 2}},
    {"error_function", {error_function, nullptr, 1.25}},
    {"log_gamma", {log_gamma, nullptr, 0}},
    {"power", {nullptr, power, 1.25}},
    {"angle_of_point", {nullptr, angle_of_point, 1.5}},
    {"hypotenuse", {nullptr, hypotenuse, 1.25}},
};

struct Case {
  std::string line;
  const Function* function = nullptr;
  double found = 0;
  double high = 0;  // the exact result is high + low
  double low = 0;
};

std::vector<Case> cases() {
  std::ifstream in(std::string(TTRACE_SOURCE_DIR) + "/tests/base/function_cases.txt");
  std::vector<Case> all;
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    std::string name;
    words >> name;
    std::vector<double> numbers;
    for (std::string word; words >> word;) numbers.push_back(std::strtod(word.c_str(), nullptr));
    const Function& function = kFunctions.at(name);
    REQUIRE(numbers.size() == (function.of_one != nullptr ? 3U : 4U));
    const double found = function.of_one != nullptr ? function.of_one(numbers[0])
                                                    : function.of_two(numbers[0], numbers[1]);
    all.push_back({line, &function, found, numbers.end()[-2], numbers.end()[-1]});
  }
  return all;
}

double last_place(double x) {
  const int exponent = std::max(std::ilogb(std::abs(x)), -1022);
  return std::ldexp(1.0, exponent - 52);
}

bool near_enough(const Case& one) {
  const double error = std::abs((one.found - one.high) - one.low);
  // Of log_gamma alone the error is no matter of the last place.
  if (one.function->most == 0) return error <= 0x1p-45 * std::max(1.0, std::abs(one.high));
  if (one.high == 0 || std::isinf(one.high)) return one.found == one.high;
  return error <= one.function->most * last_place(one.high);
}

TEST_CASE("functions are as near to the exact result as their header says") {
  std::map<const Function*, int> seen;
  for (const Case& one : cases()) {
    if (!near_enough(one)) FAIL_CHECK(one.line << " but found " << one.found);
    ++seen[one.function];
  }
  CHECK(seen.size() == kFunctions.size());
  for (const auto& [function, count] : seen) CHECK(count >= 50);
}

TEST_CASE("functions have the same bits on every machine") {
  std::uint64_t sum = 0;
  for (const Case& one : cases()) {
    sum = sum * 0x9e3779b97f4a7c15 + std::bit_cast<std::uint64_t>(one.found);
  }
  CHECK(sum == 0x57ec35aba79f893a);  // of g++ 12 with and without AVX2 and FMA, and of clang 14
}

bool is(double found, double expected) {
  return std::isnan(expected) ? std::isnan(found)
                              : found == expected && std::signbit(found) == std::signbit(expected);
}

TEST_CASE("functions of zeros, infinities and no numbers are as in C") {
  struct Special {
    const char* name;
    double of_zero, of_minus_zero, of_infinity, of_minus_infinity;
  };
  for (const Special& one :
       {Special{"exponential", 1, 1, kInfinite, 0},
        Special{"logarithm", -kInfinite, -kInfinite, kInfinite, kNoNumber},
        Special{"decimal_logarithm", -kInfinite, -kInfinite, kInfinite, kNoNumber},
        Special{"logarithm_of_1_plus", 0, -0.0, kInfinite, kNoNumber},
        Special{"sine", 0, -0.0, kNoNumber, kNoNumber},
        Special{"cosine", 1, 1, kNoNumber, kNoNumber},
        Special{"arctangent", 0, -0.0, kHalfPi.high, -kHalfPi.high},
        Special{"arcsine", 0, -0.0, kNoNumber, kNoNumber},
        Special{"arccosine", kHalfPi.high, kHalfPi.high, kNoNumber, kNoNumber},
        Special{"hyperbolic_sine", 0, -0.0, kInfinite, -kInfinite},
        Special{"hyperbolic_cosine", 1, 1, kInfinite, kInfinite},
        Special{"hyperbolic_tangent", 0, -0.0, 1, -1},
        Special{"inverse_hyperbolic_sine", 0, -0.0, kInfinite, -kInfinite},
        Special{"inverse_hyperbolic_cosine", kNoNumber, kNoNumber, kInfinite, kNoNumber},
        Special{"inverse_hyperbolic_tangent", 0, -0.0, kNoNumber, kNoNumber},
        Special{"error_function", 0, -0.0, 1, -1}}) {
    INFO(one.name);
    const auto function = kFunctions.at(one.name).of_one;
    CHECK(is(function(0.0), one.of_zero));
    CHECK(is(function(-0.0), one.of_minus_zero));
    CHECK(is(function(kInfinite), one.of_infinity));
    CHECK(is(function(-kInfinite), one.of_minus_infinity));
    CHECK(std::isnan(function(kNoNumber)));
    CHECK(std::isnan(function(-kNoNumber)));
  }
}

TEST_CASE("functions end where their domain or range does") {
  CHECK(is(exponential(710), kInfinite));
  CHECK(is(exponential(-746), 0));
  CHECK(is(exponential(-1e300), 0));
  CHECK(std::isnan(logarithm(-kLeast)));
  CHECK(std::isnan(decimal_logarithm(-1)));
  CHECK(is(logarithm_of_1_plus(-1), -kInfinite));
  CHECK(std::isnan(logarithm_of_1_plus(-1.5)));
  CHECK(is(logarithm(1), 0));
  CHECK(is(arccosine(1), 0));
  CHECK(is(arccosine(-1), kPi.high));
  CHECK(std::isnan(arcsine(1.5)));
  CHECK(std::isnan(inverse_hyperbolic_cosine(0.5)));
  CHECK(is(inverse_hyperbolic_tangent(-1), -kInfinite));
  CHECK(is(hyperbolic_sine(-711), -kInfinite));
  CHECK(is(angle_of_point(-0.0, 1), -0.0));
  CHECK(is(angle_of_point(0, -1), kPi.high));
  CHECK(is(angle_of_point(-0.0, -0.0), -kPi.high));
  CHECK(is(angle_of_point(kInfinite, -kInfinite), 0.75 * kPi.high));
  for (int n = 0; n < 23; ++n) CHECK(decimal_logarithm(power(10, n)) == n);
  CHECK(is(log_gamma(kInfinite), kInfinite));
  CHECK(is(log_gamma(0), kInfinite));
  CHECK(std::isnan(log_gamma(kNoNumber)));
  CHECK(is(hypotenuse(kInfinite, kNoNumber), kInfinite));
  CHECK(is(hypotenuse(kNoNumber, -kInfinite), kInfinite));
  CHECK(std::isnan(hypotenuse(kNoNumber, 1)));
  CHECK(is(hypotenuse(0, -0.0), 0));
  CHECK(is(hypotenuse(std::numeric_limits<double>::max(), 0x1p1023), kInfinite));
}

TEST_CASE("powers of zeros, infinities, negative and no numbers are as in C") {
  struct Special {
    double x, y, expected;
  };
  for (const Special& one : {Special{0, -3, kInfinite},
                             Special{-0.0, -3, -kInfinite},
                             Special{-0.0, -2, kInfinite},
                             Special{-0.0, -kInfinite, kInfinite},
                             Special{0, 3, 0},
                             Special{-0.0, 3, -0.0},
                             Special{-0.0, 2.5, 0},
                             Special{-1, kInfinite, 1},
                             Special{-1, -kInfinite, 1},
                             Special{1, kNoNumber, 1},
                             Special{kNoNumber, 0, 1},
                             Special{kNoNumber, -0.0, 1},
                             Special{kNoNumber, 1, kNoNumber},
                             Special{2, kNoNumber, kNoNumber},
                             Special{-2, 0.5, kNoNumber},
                             Special{0.5, -kInfinite, kInfinite},
                             Special{0.5, kInfinite, 0},
                             Special{-2, -kInfinite, 0},
                             Special{-2, kInfinite, kInfinite},
                             Special{-kInfinite, -3, -0.0},
                             Special{-kInfinite, -2.5, 0},
                             Special{-kInfinite, 3, -kInfinite},
                             Special{-kInfinite, 2, kInfinite},
                             Special{kInfinite, -1, 0},
                             Special{kInfinite, 0.5, kInfinite},
                             Special{-2, 0x1p60, kInfinite},
                             Special{-2, -1075, -0.0},
                             Special{-2, 1023, -0x1p1023},
                             Special{2, 1024, kInfinite},
                             Special{-3, 3, -27},
                             Special{0.5, 1e300, 0},
                             Special{0.5, -1e300, kInfinite}}) {
    INFO(one.x << " to the power of " << one.y);
    CHECK(is(power(one.x, one.y), one.expected));
  }
}

}  // namespace
}  // namespace ttrace::base::functions_test
