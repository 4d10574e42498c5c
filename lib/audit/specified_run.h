// The tensors of a specification as a run recorded them: which there are, and their values, of
// which as many stay in memory as there is room for, since the next expressions mostly need the
// same ones.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "audit/recorded_tensors.h"
#include "audit/run_variants.h"
#include "measure/backend.h"
#include "optimizer/gradient_norm.h"
#include "specification/evaluate/shared_values.h"
#include "specification/evaluate/value_cache.h"
#include "specification/expression.h"
#include "specification/primitives/value.h"
#include "specification/specification.h"
#include "trace/key.h"
#include "trace/source.h"

namespace ttrace::audit {

// An expression with the values of its leaves.
struct ReadExpression {
  specification::Expression expression;
  std::vector<specification::Value> leaves;
  specification::ValueSharing sharing;
};

class SpecifiedRun {
 public:
  // The first three must outlive this. While it lives, all values of the process together take at
  // most `memory` bytes.
  SpecifiedRun(const trace::Source& run, const specification::Specification& specification,
               const measure::ExecutionContext& context, std::uint64_t memory);

  // The specification for the micro-batch of that key.
  const specification::Specification& variant_of(const trace::TensorKey& key) const {
    return variants_.of(key);
  }

  bool has_other_sizes(const trace::TensorKey& key) const { return variants_.has_other_sizes(key); }

  // The entry of that key, or null.
  const trace::TensorEntry* find(const trace::TensorKey& key) const { return recorded_.find(key); }
  // The entry of a tensor of the variant that the micro-batch of `like` has, or null.
  const trace::TensorEntry* find(std::size_t number, const trace::TensorKey& like) const;

  // The values of a recorded tensor. Throws an input error if a shard cannot be read.
  specification::Value value_of(const trace::TensorEntry& entry);

  // Whether an expression can be judged in the memory that there is.
  bool has_room_for(const specification::Expression& expression) const;
  // Reads the leaves of an expression for which there is room, of a tensor of that key. Throws an
  // input error if one cannot be read.
  ReadExpression read(specification::Expression expression, const trace::TensorKey& key);

 private:
  // Notes the gradient norms that formulas of updates read and the run did not record: they follow
  // from its main gradients.
  void note_norms(const specification::Specification& specification);
  specification::Value norm_of(const trace::TensorEntry& entry);
  void note_held(const specification::Specification& specification);

  const trace::Source& run_;
  const measure::ExecutionContext& context_;
  std::uint64_t memory_;
  specification::ValueMemoryLimit limit_;
  specification::ValueCache<const trace::TensorEntry*> values_;
  specification::SharedValues shared_;
  RecordedTensors recorded_;
  std::map<trace::TensorKey, trace::TensorEntry> norms_;  // that were not recorded
  std::optional<optimizer::Clipping> clipping_;           // where there are any
  RunVariants variants_;
  // For each variant, by number of a tensor: whether some step and micro-batch has it.
  std::map<const specification::Specification*, std::vector<char>> held_;
};

}  // namespace ttrace::audit
