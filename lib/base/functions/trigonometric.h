// sin x and cos x, of any finite x. Infinite: no number.
#pragma once

namespace ttrace::base {

double sine(double x);
double cosine(double x);

}  // namespace ttrace::base
