// Simulated roundings: multiplies elements by 1 + u·ξ, as a run that rounded them may have done.
// How far the result of an expression moves says how much rounding explains.
#pragma once

#include <cstdint>

#include "specification/primitives/value.h"
#include "tensor/dtype.h"

namespace ttrace::specification {

// Random numbers by position: the same for any number of threads.
class Noise {
 public:
  explicit Noise(std::uint64_t seed) : seed_(seed) {}

  // Another, independent source.
  Noise stream(std::uint64_t number) const;

  // ξ of an element: uniform in [-1, 1), of 32 random bits.
  double at(std::uint64_t index) const {
    std::uint64_t bits = seed_ + (index + 1) * 0x9E3779B97F4A7C15ULL;
    bits = (bits ^ (bits >> 30U)) * 0xBF58476D1CE4E5B9ULL;
    bits = (bits ^ (bits >> 27U)) * 0x94D049BB133111EBULL;
    return static_cast<double>(static_cast<std::int32_t>(bits >> 32U)) * 0x1p-31;
  }

  std::uint64_t bits() const { return seed_; }

  // A sign of an element: +1 or -1.
  double sign(std::uint64_t index) const { return at(index) < 0 ? -1.0 : 1.0; }

 private:
  std::uint64_t seed_;
};

// The rounding of an accumulator, in units of u·‖x‖·‖y‖ for a sum Σ x·y, u its unit roundoff.
inline constexpr double kAccumulation = 1;
// Sums over dimensions keep parts of them in the type of the result, so that several roundings of
// their size add up; products round their parts once, where ranks add them.
inline constexpr double kRoundingsOfSum = 2;

// The standard size of the rounding of one sum Σ x·y of n terms, beyond the rounding of its result:
// parts of it may have been rounded to `dtype` before they were added (tensor parallelism), and the
// accumulator rounds after every addition. `norms` is ‖x‖·‖y‖. Evidence: lib/judge/README.md.
double sum_roundoff(tensor::DType dtype, double norms, std::uint64_t n, double roundings = 1);

// What an accumulator that adds n terms one after the other loses of a sum whose terms have one
// sign, in units of the sum: u·√(n/3), since the partial sums s grow evenly and Σ s² = S²·n/3.
// Weight gradients of GPT-2 (124 million parameters, 128 tokens) in single precision lose 4 u so.
double coherent_roundoff(tensor::DType dtype, std::uint64_t n);

// The smallest number that a sum of products of bf16 keeps; 0 of other types. Instructions that
// multiply bf16 (AMX, AVX512_BF16) read and write subnormal numbers of binary32 as 0, whatever the
// process asks for: each term loses up to this number, and each factor below it loses it times the
// other factor. Source: Intel's Software Developer's Manual, TDPBF16PS and VDPBF16PS.
double kept_in_sum(tensor::DType dtype);

// What an accumulator of one type loses of a sum that it adds up term by term.
class StepwiseSum {
 public:
  explicit StepwiseSum(tensor::DType dtype) : dtype_(dtype) {}

  void add(double term) {
    exact_ += term;
    squares_ += exact_ * exact_;
    single_ += static_cast<float>(term);
  }

  // The size of it for a number ξ: u·√(Σ s²) over the partial sums s, if its roundings are
  // independent. Equal terms, as a mean over tokens has for gradients, are rounded alike, and their
  // losses add up: in binary32, what is lost in this order is the size where that is larger. In
  // narrower types it is not, as gradients that were added up in one are findings.
  double lost() const;

 private:
  tensor::DType dtype_;
  double exact_ = 0;
  double squares_ = 0;
  float single_ = 0;
};

// The unit roundoff u of a type: half its epsilon; of the 8-bit floats that of their own mantissas.
// 0 for integers and bool.
double unit_roundoff(tensor::DType dtype);
// The unit roundoff of the type in which sums of products of `dtype` are accumulated: at least
// binary32.
double accumulation_roundoff(tensor::DType dtype);

}  // namespace ttrace::specification
