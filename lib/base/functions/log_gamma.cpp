#include "base/functions/log_gamma.h"

#include "base/functions/logarithm.h"
#include "base/functions/two_part.h"

namespace ttrace::base {

double log_gamma(double x) {
  if (x > 0x1p100) return x * (logarithm(x) - 1);
  // Γ(x) = Γ(x + n) / (x · (x + 1) · ... · (x + n - 1))
  double product = 1;
  while (x < 16) {
    product *= x;
    x += 1;
  }
  // Stirling's series: B(2n) / (2n · (2n - 1) · x^(2n - 1)) with the numbers of Bernoulli.
  constexpr double kFactors[] = {-691.0 / 360360, 1.0 / 1188, -1.0 / 1680,
                                 1.0 / 1260,      -1.0 / 360, 1.0 / 12};
  constexpr double kHalfLogOf2Pi = 0x1.d67f1c864beb5p-1;
  const double series = polynomial(kFactors, 1 / (x * x)) / x;
  return (x - 0.5) * logarithm(x) - x + (kHalfLogOf2Pi + series) - logarithm(product);
}

}  // namespace ttrace::base
