// sin x and cos x of any finite x; NaN of an infinite x or NaN.
#pragma once

namespace ttrace::base {

double sine(double x);
double cosine(double x);

}  // namespace ttrace::base
