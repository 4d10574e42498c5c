// Turns frontier nodes into findings: where the difference is, what came before, what may be why.
// Also the descriptions that findings consist of.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "comparison/result.h"
#include "judge/slices.h"
#include "localize/dataflow.h"
#include "localize/frontier.h"
#include "measure/measure.h"
#include "trace/source.h"

namespace ttrace::localize {

struct ExplainInput {
  const trace::Source& reference;
  const trace::Source& candidate;
  const std::vector<comparison::TensorComparison>& results;  // node i is results[i]
  const std::vector<trace::Module>& modules;
  const Dataflow& flow;
  const measure::Backend& backend;
};

// Completes the findings of the frontier. Reads the tensors of the first findings again.
std::vector<comparison::Finding> explain_findings(const ExplainInput& input,
                                                  const Frontier& frontier);

// "2 × [64] -> [64], replicas over tp"
std::string describe_merging(const trace::Source& candidate, const trace::TensorEntry& entry);

// The same for a view: of a tensor made of several, which ones and how.
std::string describe_view(const trace::Source& candidate, const layout::View& view);

// Both shapes, types and placements of a pair that cannot be compared.
std::string describe_shapes(const trace::Source& reference, const layout::View& of_reference,
                            const trace::Source& candidate, const layout::View& of_candidate);

// Each shard's share of the squared error: where in the tensor, and on which ranks, it differs.
std::string describe_where(const measure::TensorRef& candidate,
                           const comparison::TensorComparison& result);

// Returns the ranks of shards with more than their share of the error; in a replica conflict all
// ranks that have the tensor.
std::vector<std::uint64_t> ranks_with_error(const comparison::TensorComparison& result);

// "rows 4 to 7 of 64 (dimension 0): error 0.3 of its norm, allowed 0.01; 2 more parts", or nothing.
std::string describe_slices(const judge::SliceJudgement& slices, const tensor::Shape& shape);

// "98 % of the squared error in rows 4 to 7 of 64", for every dimension of which a quarter of the
// indices or less hold 90 % of it; empty if none does, for dimensions of fewer than four indices,
// and for tensors too large to be read once more for this (2^27 elements). Throws an input error if
// reading fails.
std::string rows_with_error(const measure::TensorRef& reference,
                            const measure::TensorRef& candidate);

// "reference 7.97502, candidate 7.9753"; where the candidate's replicas differ, the value of each
// class of ranks: "reference 1, candidate 1 on rank 0, 0.96 on ranks {1, 2}". Empty for more than
// one element, and where a value cannot be read. `result` is the pair's and was measured.
std::string describe_values(const measure::TensorRef& reference,
                            const measure::TensorRef& candidate,
                            const comparison::TensorComparison& result);

}  // namespace ttrace::localize
