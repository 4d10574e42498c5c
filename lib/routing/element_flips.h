// Elements of a gradient that differ because rounding decided otherwise about the values beside it
// in the forward pass: on which side of zero one lies, whether it reaches a limit, or which of two
// is the maximum. The method: lib/localize/README.md, "Kinks".
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "tensor/shape.h"

namespace ttrace::routing {

// The share of a gradient's difference that such decisions explain.
struct FlippedElements {
  std::uint64_t signs = 0;   // elements of the argument that are positive in one run alone
  std::uint64_t limits = 0;  // elements that are the least or greatest value in one run alone
  std::uint64_t maxima = 0;  // elements between which a maximum moved
  bool known = true;         // whether the values show which kink it is
  double noise = 0;          // of the argument: root mean square of the difference elsewhere
  double largest = 0;        // distance from zero or the limit, or between values of a maximum
  double moved = 0;          // ‖difference of the gradient‖ in these elements
  double rest = 0;           // the same in all others

  std::uint64_t total() const { return signs + limits + maxima; }
  // Whether all decisions are within kMostNoise times the noise.
  bool by_rounding() const;
};

// Goes through a gradient and a tensor of the forward pass of the same shape, its argument.
//
// A sign flips where the argument is positive in only one run and the gradient is bent there: it is
// zero in the run where the argument is not positive and in that run alone (a ReLU), or the same
// multiple of the other run's in all such elements (a leaky one, an absolute value). Where it jumps
// by another multiple in each (what a ReLU was given goes elsewhere as well) the kink is not known.
// An activation without a kink bends no gradient, whatever the sign of its argument.
//
// A limit flips where an element reaches, in only one run, the argument's least or greatest value,
// which must be the same in both runs and be held by several elements, and its gradient is zero in
// that run alone. A maximum moves among elements of one sample (of one channel in images) that are
// equal within kMostNoise times the noise and whose order differs between the runs. What some of
// these lose of the gradient, others gain, so that the differences add up to at most kMostCreated
// of their sizes. Values that are not finite explain nothing.
class ElementFlips {
 public:
  // `large` is a difference of the gradient; smaller ones are not looked at for limits and maxima.
  // `epsilon` is that of the gradient's type.
  ElementFlips(const tensor::Shape& shape, double large, double epsilon);

  // The next elements in row-major order, of each tensor as many.
  struct Elements {
    std::span<const double> argument_before;  // in the reference
    std::span<const double> argument_after;   // in the candidate
    std::span<const double> gradient_before;
    std::span<const double> gradient_after;
  };
  void add(const Elements& elements);

  // Which kinks explain a flip.
  enum class Allowed { kKnown, kAny };
  // The flips among all elements that were added.
  FlippedElements found(Allowed allowed = Allowed::kKnown) const;

 private:
  // An element whose gradient is off by a large difference.
  struct Large {
    std::uint64_t window = 0;  // the sample, or the channel of one, that it belongs to
    double before = 0;         // of the argument
    double after = 0;
    double gradient_before = 0;
    double gradient_after = 0;
    bool sign = false;    // flipped, which explains it
    bool chosen = false;  // otherwise explained
    double off() const { return gradient_after - gradient_before; }
  };
  // Elements that are positive in one run alone and whose gradient vanishes in neither: a sum of
  // products for the multiple that fits all of them best.
  struct Bends {
    std::uint64_t count = 0;
    double distance = 0;  // of the argument from zero, at most
    double dull2 = 0;     // Σ of the gradient where the argument is not positive, squared
    double sharp2 = 0;    // the same where it is positive
    double product = 0;   // Σ of the products of both
    double larger2 = 0;   // Σ of the larger of both squares
    double off2 = 0;      // Σ of the differences, squared
    void add(double dull, double sharp, double off, double from_zero);
    bool one_multiple() const;
    bool jump() const;
  };
  // The least or greatest value of a run.
  struct Limit {
    double value = 0;
    std::uint64_t held_by = 0;
    void add(double next, bool beyond);
  };

  void explain_limits(std::vector<Large>& large, FlippedElements& found) const;
  void explain_maxima(std::vector<Large>& large, FlippedElements& found) const;

  std::uint64_t per_window_ = 1;
  double large_off_ = 0;
  double epsilon_ = 0;
  std::uint64_t added_ = 0;
  FlippedElements signs_;
  Bends bends_;
  std::uint64_t same_side_ = 0;
  double squares_ = 0;  // Σ of the argument's differences, squared, in elements on the same side
  double moved_ = 0;    // of the gradient's, where a sign flipped
  double rest_ = 0;     // of the gradient's small ones elsewhere
  std::vector<Large> large_;
  bool too_many_ = false;
  Limit least_before_, least_after_, greatest_before_, greatest_after_;
};

}  // namespace ttrace::routing
