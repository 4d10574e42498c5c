// Stored values for conformance cases, and the comparison of results.
#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "base/text.h"
#include "measure/cuda/conformance.h"
#include "tensor/codec.h"

namespace ttrace::test {

using base::concat;
using measure::InputBox;
using measure::StoredValues;
using tensor::DType;

inline constexpr std::array kFloatTypes{DType::kFloat64,  DType::kFloat32,    DType::kFloat16,
                                        DType::kBFloat16, DType::kFloat8E4M3, DType::kFloat8E5M2};

// What the values of a case look like.
enum class Pattern {
  kOrdinary,   // normal numbers of similar size
  kAnyBits,    // any bits: NaNs, infinities, subnormal and huge numbers
  kSprinkled,  // ordinary, with some NaN and Inf
  kNothing,    // all NaN or Inf
};
inline constexpr std::array kPatterns{Pattern::kOrdinary, Pattern::kAnyBits, Pattern::kSprinkled,
                                      Pattern::kNothing};

inline const char* pattern_name(Pattern pattern) {
  switch (pattern) {
    case Pattern::kOrdinary:
      return "ordinary";
    case Pattern::kAnyBits:
      return "any bits";
    case Pattern::kSprinkled:
      return "sprinkled";
    case Pattern::kNothing:
      return "nothing finite";
  }
  return "";
}

class Draw {
 public:
  explicit Draw(std::uint64_t seed) : engine_(seed) {}

  std::uint64_t bits() { return engine_(); }
  std::uint64_t between(std::uint64_t low, std::uint64_t high) {
    return low + engine_() % (high - low + 1);
  }
  double symmetric() { return static_cast<double>(engine_() >> 11) * 0x1p-52 - 1; }

  double special() {
    constexpr std::array kSpecial{std::numeric_limits<double>::quiet_NaN(),
                                  std::numeric_limits<double>::infinity(),
                                  -std::numeric_limits<double>::infinity()};
    return kSpecial[between(0, 2)];
  }
  double value(Pattern pattern) {
    if (pattern == Pattern::kNothing) return special();
    if (pattern == Pattern::kSprinkled && between(0, 99) == 0) return special();
    return symmetric();
  }

 private:
  std::mt19937_64 engine_;
};

// Elements of a floating-point or integer type, at any address.
class Values {
 public:
  Values(Draw& draw, DType dtype, std::size_t count, Pattern pattern, std::size_t shift = 0,
         double scale = 1)
      : dtype_(dtype), shift_(shift), scale_(scale) {
    const std::size_t width = tensor::element_bytes(dtype);
    bytes_.resize(count * width + shift);
    if (pattern == Pattern::kAnyBits || !tensor::is_floating(dtype)) {
      for (std::byte& byte : bytes_) byte = static_cast<std::byte>(draw.bits());
      return;
    }
    std::vector<double> numbers(count);
    for (double& number : numbers) number = draw.value(pattern);
    tensor::encode_floats(dtype, numbers, std::span(bytes_).subspan(shift));
  }

  Values(DType dtype, const std::vector<double>& numbers)
      : dtype_(dtype), shift_(0), scale_(1), bytes_(numbers.size() * tensor::element_bytes(dtype)) {
    tensor::encode_floats(dtype, numbers, bytes_);
  }

  // Every `every`-th element takes other bits, on average.
  Values changed(Draw& draw, std::uint64_t every) const {
    Values other = *this;
    const std::size_t width = tensor::element_bytes(dtype_);
    for (std::size_t i = shift_; i + width <= other.bytes_.size(); i += width) {
      if (draw.between(1, every) == 1) other.bytes_[i] ^= static_cast<std::byte>(draw.bits());
    }
    return other;
  }

  // From the start of the memory, where the elements may begin later.
  std::span<const std::byte> all_bytes() const { return bytes_; }
  StoredValues stored() const { return {std::span(bytes_).subspan(shift_), dtype_, scale_}; }
  InputBox as(const tensor::Box& box) const { return {box, stored()}; }

 private:
  DType dtype_;
  std::size_t shift_;
  double scale_;
  std::vector<std::byte> bytes_;
};

// Collects the differences of one case.
class Case {
 public:
  Case(Conformance& all, std::string name) : all_(all), name_(std::move(name)) { ++all_.cases; }

  // Equal bits; NaN equals NaN, whose payload no report shows.
  void same(const char* what, double expected, double actual) {
    if (std::isnan(expected) && std::isnan(actual)) return;
    if (std::bit_cast<std::uint64_t>(expected) == std::bit_cast<std::uint64_t>(actual)) return;
    char text[96];
    std::snprintf(text, sizeof text, "%a is not %a", actual, expected);
    fail(what, text);
  }
  void same(const char* what, std::uint64_t expected, std::uint64_t actual) {
    if (expected != actual) fail(what, concat(actual, " is not ", expected));
  }
  void same(const char* what, const tensor::Shape& expected, const tensor::Shape& actual) {
    if (expected != actual) {
      fail(what, concat(tensor::to_string(actual), " is not ", tensor::to_string(expected)));
    }
  }

  void same(const measure::TileStats& expected, const measure::TileStats& actual) {
    same("elements", expected.elements, actual.elements);
    same("finite", expected.finite, actual.finite);
    same("sum_d2", expected.sum_d2, actual.sum_d2);
    same("sum_d", expected.sum_d, actual.sum_d);
    same("sum_r2", expected.sum_r2, actual.sum_r2);
    same("sum_c2", expected.sum_c2, actual.sum_c2);
    same("sum_rc", expected.sum_rc, actual.sum_rc);
    same("unequal", expected.unequal, actual.unequal);
    same("nonfinite_reference", expected.nonfinite_reference, actual.nonfinite_reference);
    same("nonfinite_candidate", expected.nonfinite_candidate, actual.nonfinite_candidate);
    same("nonfinite_equal", expected.nonfinite_equal, actual.nonfinite_equal);
    same("nonfinite_different", expected.nonfinite_different, actual.nonfinite_different);
    same("a largest", std::uint64_t{expected.largest.has_value()},
         std::uint64_t{actual.largest.has_value()});
    if (expected.largest && actual.largest) {
      same("largest", expected.largest->difference, actual.largest->difference);
      same("largest's reference", expected.largest->reference, actual.largest->reference);
      same("largest's candidate", expected.largest->candidate, actual.largest->candidate);
      same("largest's place", expected.largest->at, actual.largest->at);
    }
    same("first non-finite difference",
         expected.first_nonfinite_difference.value_or(tensor::Shape{}),
         actual.first_nonfinite_difference.value_or(tensor::Shape{}));
  }

  void same(const std::vector<measure::CellSums>& expected,
            const std::vector<measure::CellSums>& actual) {
    for (std::size_t i = 0; i < expected.size(); ++i) {
      same("cell's d2", expected[i].d2, actual[i].d2);
      same("cell's a2", expected[i].a2, actual[i].a2);
      same("cell's along", expected[i].along, actual[i].along);
    }
  }

 private:
  void fail(const char* what, const std::string& how) {
    constexpr std::size_t kMostFailures = 50;
    if (all_.failures.size() < kMostFailures) {
      all_.failures.push_back(concat(name_, ": ", what, " ", how));
    }
  }

  Conformance& all_;
  std::string name_;
};

}  // namespace ttrace::test
