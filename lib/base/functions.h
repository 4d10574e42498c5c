// Our own versions of the C library's functions of real numbers. The last bits of the library's
// results depend on its version and on the processor; a report must not. These use additions,
// multiplications, divisions and square roots alone, in a fixed order, which IEEE 754 rounds in one
// way. Nothing outside this folder calls the library's (tests/architecture/check_functions.py).
//
// Errors over the whole range, in units in the last place of the exact result, subnormal ones
// included; of log_gamma, as a share of the result or of 1 where that is smaller:
//
//   logarithm, decimal_logarithm, logarithm_of_1_plus   0.51
//   sine, cosine, hyperbolic_tangent                    0.75
//   exponential                                         1
//   error_function, hypotenuse, power                   1.25
//   arctangent, angle_of_point                          1.5
//   arcsine, arccosine, inverse_hyperbolic_...          2
//   hyperbolic_sine, hyperbolic_cosine                  3
//   log_gamma                                           2^-45
//
// tests/base/functions_test.cpp holds random and hard arguments against mpmath. Zeros keep their
// sign, infinite arguments give limits, and NaN stays NaN, as C's Annex F says.
#pragma once

// IWYU pragma: begin_exports
#include "base/functions/error_function.h"
#include "base/functions/exponential.h"
#include "base/functions/hyperbolic_functions.h"
#include "base/functions/hyperbolic_tangent.h"
#include "base/functions/hypotenuse.h"
#include "base/functions/inverse_trigonometric.h"
#include "base/functions/log_gamma.h"
#include "base/functions/logarithm.h"
#include "base/functions/power.h"
#include "base/functions/trigonometric.h"
// IWYU pragma: end_exports
