// The parts of a tensor that are beyond their tolerance, in words.
#pragma once

#include <string>

#include "verdict/slices.h"

namespace ttrace::engine {

// "rows 4 to 7 of 64 (dimension 0): error 0.3 of its norm, allowed 0.01; 2 more parts", or nothing.
std::string slices_words(const verdict::SliceJudgement& slices, const tensor::Shape& shape);

}  // namespace ttrace::engine
