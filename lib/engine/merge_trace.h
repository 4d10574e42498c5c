// The story of `ttrace merge`: a trace of many ranks becomes a trace of one.
#pragma once

#include <string>
#include <vector>

#include "comparison/selection.h"
#include "trace/sink.h"
#include "trace/source.h"

namespace ttrace::engine {

struct MergeResult {
  std::uint64_t tensors = 0;  // written
  std::uint64_t bytes = 0;
  std::vector<std::string> warnings;  // replicas that differ
  std::vector<std::string> left_out;  // tensors that could not be read, and why
};

// Writes every selected tensor of `source` whole into `sink`, box by box. Stored bits are kept
// with their dtype and scale; a partial tensor, whose value is a sum, becomes float64 with the sum
// and `computed_in` its former precision. Of replicas the first is taken.
MergeResult merge_trace(const trace::Source& source, const comparison::Selection& selection,
                        trace::Sink& sink);

}  // namespace ttrace::engine
