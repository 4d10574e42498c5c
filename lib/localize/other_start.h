// Whether the runs start from the same weights and were given the same data. Where they do not,
// nothing that follows says anything about the code.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "base/message.h"
#include "comparison/result.h"

namespace ttrace::localize {

// Returns in what the runs differ at their start, or nothing.
//
// Other weights: in the first step, more than half of the parameters diverged, or more than half of
// those with two dimensions and more (biases and norms are often constants, alike for every seed).
// Where these are the other side's, rounded to a narrower type, it says so.
// Other data: an input of the model, more than half of whose elements differ on every shard, while
// no parameter does. Other draws: modules drew other random numbers, and every finding of the first
// step is one of theirs. Dropout: the first finding is the output of a module of dropout, whose
// input matches. Not weights where more than half of what differs, and not data or dropout
// where any, has a cause that says more than where the error is: wrong blocks and layouts are bugs.
//
// `results`: judged; `findings`: with their causes, the first in the data flow first.
std::optional<comparison::OtherStart> find_other_start(
    const std::vector<comparison::TensorComparison>& results,
    const std::vector<comparison::ComparedFinding>& findings);

// "weights", "data", "draws", "dropout".
std::string_view name_of(comparison::OtherStart::What what);

// "the runs do not start from the same weights (35 of 53 parameters differ): ...".
base::Message describe_start(const comparison::OtherStart& start);

}  // namespace ttrace::localize
