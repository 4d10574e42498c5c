// What padding leaves in a tensor: the rows that one side has beyond the other's, and whether they
// are still padding after what a step does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "comparison/padding.h"
#include "comparison/tensor_comparison.h"
#include "trace/source.h"

namespace ttrace::comparison {

// The content of the rows beyond the shorter side's, on the longer side.
struct FurtherRows {
  bool finite = true;
  bool one_value = true;  // no two of them differ, and none is NaN
  double first = 0;
  double largest = 0;  // of the magnitudes; 0 if all are NaN

  bool are_zero() const { return finite && largest == 0; }
  bool are_constant() const { return finite && one_value; }
};

// Reads them from `longer`, the side of the excess. Throws an input error if they cannot be read.
FurtherRows rows_beyond(const trace::Source& longer, const Pair& pair, const Excess& excess);

// Whether numbers of rows in `ids`, a tensor of integers, are among the further ones. Throws an
// input error if it cannot be read.
bool addresses(const trace::Source& longer, const layout::View& ids, const Excess& excess);

// A parameter with padding, and what its padding was at the last time that was looked at.
struct PaddedParameter {
  std::string name;
  Excess excess;
  std::string rows;           // describes them
  bool one_value = true;      // else they may be rows that the batch never addresses
  bool has_gradient = false;  // the loss sees them, which is a finding
  double value = 0;           // if they are of one value
  std::uint64_t step = 0;
};

// Whether `rows` are what the padding leaves in a tensor of its parameter: gradients are zero,
// states no larger than the parameter, the parameter itself has moved no more than weight decay
// moves it. Asked in the order of steps: remembers what the parameter is.
bool is_kept(const trace::Source& longer, const Pair& pair, const FurtherRows& rows,
             PaddedParameter& parameter);

// Whether `rows` are what it leaves in a value computed from it: finite ones, or -infinity in all
// of them, which is a mask; in gradients, zero.
bool is_left_by(const PaddedParameter& parameter, const Pair& pair, const FurtherRows& rows);

}  // namespace ttrace::comparison
