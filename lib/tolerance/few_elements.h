// Ratios of sums over few random elements scatter widely: a scalar's noise can be zero by chance.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ttrace::tolerance {

// Factor ≥ 1 by which the noise of `elements` elements, seen in `runs` runs, is widened: the square
// root of the 99 % quantile of the F distribution with (elements, runs · elements) degrees of
// freedom, the distribution of the ratio of two such mean squares. 1 from 4,096 elements on, where
// it is below 1.04.
double few_elements_widening(std::uint64_t elements, std::size_t runs);

// Quantile p of the F distribution with d1 and d2 degrees of freedom, relative accuracy 1e-9.
// Source: inverse of the regularized incomplete beta function, DLMF 8.17.22 (continued fraction).
double f_quantile(double p, double d1, double d2);

}  // namespace ttrace::tolerance
