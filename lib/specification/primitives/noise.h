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
// Sums over dimensions keep partial sums in the type of the result, so that several roundings of
// their size add up; products round theirs once, where ranks add them.
inline constexpr double kRoundingsOfSum = 2;

// The standard size of the rounding of one sum Σ x·y of n terms, beyond the rounding of its result:
// parts of it may have been rounded to `dtype` before they were added (tensor parallelism), and the
// accumulator rounds after every addition. `norms` is ‖x‖·‖y‖. Evidence: lib/audit/README.md.
double sum_roundoff(tensor::DType dtype, double norms, std::uint64_t n, double roundings = 1);

// The error of an accumulator that adds n terms of one sign one after the other, in units of the
// sum: u·√(n/3), since the partial sums s grow evenly and Σ s² = S²·n/3. Weight gradients of GPT-2
// (124 million parameters, 128 tokens) in single precision are off by 4 u.
double coherent_roundoff(tensor::DType dtype, std::uint64_t n);

// The smallest number that a sum of products of bf16 keeps; 0 of other types. Instructions that
// multiply bf16 (AMX, AVX512_BF16) read and write subnormal numbers of binary32 as 0, whatever the
// process asks for: each term loses up to this number, and each factor below it loses it times the
// other factor. Source: Intel's Software Developer's Manual, TDPBF16PS and VDPBF16PS.
double kept_in_sum(tensor::DType dtype);

// Finds the error of an accumulator of one type that adds up a sum term by term.
class StepwiseSum {
 public:
  explicit StepwiseSum(tensor::DType dtype) : dtype_(dtype) {}

  void add(double term) {
    exact_ += term;
    squares_ += exact_ * exact_;
    single_ += static_cast<float>(term);
  }

  // The size of the error, to be multiplied by ξ: u·√(Σ s²) over the partial sums s if roundings
  // are independent. Equal terms, such as gradients of a mean over tokens, are rounded alike, and
  // their errors add up: in binary32 the actual error in this order counts if it is larger. In
  // narrower types it does not count: there, such an error is a finding.
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
