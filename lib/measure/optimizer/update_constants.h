// The constants of one optimizer step, as update_formula() (step.h) derives them and the formula of
// an element (update_formula.h) uses them. Plain C types: kernels and devices read it.
#pragma once

namespace ttrace::measure {

enum class UpdateKind { kCopy, kSgd, kAdam };

// What the gradient becomes before it enters the update.
enum class GradientKind {
  kExact,    // at most its sign changes
  kClipped,  // multiplied by a factor
  kDecayed,  // weight decay is added
};

struct UpdateFormula {
  UpdateKind kind;
  GradientKind gradient;
  double factor;             // sign and clipping
  double decay;              // coupled weight decay
  double gradient_error;     // relative, of the factor
  double decay_error;        // relative, of the decay
  double gradient_working;   // of their sum
  double gradient_smallest;  // absolute

  // The parameter: p · shrink − lr · update.
  double shrink;
  double lr;
  double bound_of_step;  // factors of the bound
  double bound_of_old;
  double bound_of_new;
  double bound_smallest;

  // SGD
  double momentum;  // 0: none
  bool first;       // there is no buffer yet
  bool nesterov;
  double weight;  // of the gradient in the buffer
  double working;
  double smallest;

  // Adam. The first moment and its error are already divided by 1 − β1^t and multiplied by lr.
  bool amsgrad;
  double kept1;  // factor of the old one: β1
  double added1;
  double kept1_error;
  double added1_error;
  double smallest1;
  double kept2;  // the second moment
  double added2;
  double kept2_error;
  double added2_error;
  double over_root2;  // 1 / √(1 − β2^t)
  double eps;
  double error1;  // relative, of the step
  double error2;  // relative, of the denominator
  double denominator_smallest;
  double largest_step;     // that any gradients make
  double largest_squared;  // finite number of the arithmetic
  double underflow;        // denominators up to here may have lost v

  // An element is plain if its second moment is neither near zero nor large, and known within a few
  // percent. It needs one division and one root; any other needs three of both. The error of the
  // clipped gradient is included.
  double plain_from;  // second moments
  double plain_to;
  double plain_added1;
  double plain_smallest1;
  double plain_kept2;  // of the share in the denominator's error
  double plain_added2;
  double plain_decayed2;
  double plain_smallest2;
  double plain_share2;  // largest
  double plain_error2;
  double plain_slope;  // 1 / (1 - x) ≤ 1 + x · slope for any plain element
};

}  // namespace ttrace::measure
