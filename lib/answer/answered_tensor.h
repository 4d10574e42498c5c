// What an answer says of one tensor.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/heap_optional.h"
#include "tensor/shape.h"
#include "trace/key.h"

namespace ttrace::answer {

// The id of a tensor: "step/micro-batch/kind/name/call/copy".
using TensorId = std::string;

struct AnsweredTensor {
  // A number whose digits are all known, such as the difference of two integers.
  struct Exact {
    double value = 0;
    bool whole = false;
  };

  struct Largest {
    Exact value;
    tensor::Shape index;
    Exact reference;
    Exact candidate;
    std::optional<std::uint64_t> rank;
    std::optional<tensor::Shape> local_index;
  };

  struct Nonfinite {
    std::uint64_t reference = 0;
    std::uint64_t candidate = 0;
    std::uint64_t equal = 0;
    std::uint64_t different = 0;
    std::optional<tensor::Shape> first;
  };

  struct Region {
    tensor::Shape origin;
    tensor::Shape extent;
  };

  // A part of the candidate's tensor that the same ranks hold.
  struct Shard {
    Region hull;
    std::vector<std::uint64_t> ranks;
    double error = 0;             // ‖C - R‖ / ‖R‖ in it
    std::optional<double> share;  // of the tensor's squared error
    std::vector<Region> boxes;    // if it is more than its hull
  };

  struct Slice {
    std::string what;  // "shard", "block", "scale", "element"
    Region hull;
    std::vector<std::uint64_t> ranks;
    double error = 0;
    double allowed = 0;
    std::string formula;
    double passing_multiplier = 0;
  };

  struct WorstReplay {
    double ratio = 0;
    tensor::Shape index;
    double replayed = 0;
    double candidate = 0;
    double bound = 0;
    std::optional<std::uint64_t> rank;
    std::optional<tensor::Shape> local_index;
  };

  struct AgainstReference {
    double error = 0;
    double difference_norm = 0;
    double reference_norm = 0;
  };

  // Of a value that was recomputed from values of its own run.
  struct Replayed {
    std::string optimizer;
    std::uint64_t updates = 0;
    std::uint64_t outside = 0;
    std::uint64_t unmoved = 0;
    double bound_norm = 0;
    std::optional<WorstReplay> worst;
    AgainstReference against_reference;
  };

  // What comparing a tensor yielded.
  struct Numbers {
    double error = 0;  // ‖C - R‖ / ‖R‖
    std::optional<double> error_in_eps;
    double allowed = 0;
    std::string rule;  // "noise", "fallback", "exact", "policy:2"
    std::string formula;
    std::optional<double> passing_multiplier;
    double difference_norm = 0;
    double reference_norm = 0;
    double candidate_norm = 0;
    double allowed_norm = 0;
    std::optional<Largest> max_abs;
    std::optional<double> mean_difference;
    std::optional<double> cosine;
    std::optional<double> scale;
    std::optional<double> residual;
    std::uint64_t unequal = 0;
    std::optional<Nonfinite> nonfinite;
    std::optional<double> replica_drift;
    std::optional<Shard> worst_slice;
    std::optional<Replayed> replay;
    std::optional<Slice> closest_slice;
    std::uint64_t slices_beyond = 0;
    std::vector<Slice> slices;
    std::uint64_t tokens_left_out = 0;
    std::uint64_t rows_left_out = 0;
  };

  // One thing that must hold of a tensor by its own run.
  struct Check {
    TensorId id;  // of the tensor, where it is not the one that the check stands in
    std::string operation;
    std::string result;  // "consistent", "inconsistent", "not_replayable", "below_bound"
    std::optional<double> error;
    std::optional<double> bound;
    std::string expected;
    std::string reason;
    bool by_probes = false;
    std::string rows;
    std::vector<std::uint64_t> ranks;
  };

  TensorId id;
  trace::TensorKey key;
  std::string outcome;
  std::optional<tensor::Shape> shape;
  std::string dtype;
  std::optional<std::uint64_t> elements;
  std::string phase;
  std::string module;
  std::optional<std::uint64_t> layer;
  std::string candidate_dtype;  // where it differs
  std::string reason;
  std::vector<std::string> nearest;  // unmatched names of the other side
  std::optional<double> used;        // error over allowed
  base::HeapOptional<Numbers> numbers;
  bool downstream = false;  // broken, and explained by what it was computed from
  std::vector<Check> checks;
  bool known = false;  // excused as a known difference
};

}  // namespace ttrace::answer
