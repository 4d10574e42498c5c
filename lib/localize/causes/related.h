// Other tensors of the two runs, with which a finder may compare.
#pragma once

#include <cstddef>
#include <map>
#include <utility>
#include <vector>

#include "comparison/result.h"
#include "measure/tensor_reader.h"
#include "trace/source.h"

namespace ttrace::localize {

class Related {
 public:
  // All must outlive this.
  Related(const std::vector<comparison::TensorComparison>& results, const trace::Source& reference,
          const trace::Source& candidate);

  using Records = std::vector<const comparison::TensorComparison*>;
  // In the order of the records.
  const Records& of_kind(trace::Kind kind) const;
  const Records& alike(trace::Kind kind, const tensor::Shape& shape) const;

  // Null source where that side lacks the tensor.
  measure::TensorRef reference(const comparison::TensorComparison& record) const;
  measure::TensorRef candidate(const comparison::TensorComparison& record) const;

  const trace::Source& candidate_run() const { return candidate_; }

 private:
  const trace::Source& reference_;
  const trace::Source& candidate_;
  std::map<trace::Kind, Records> kinds_;
  std::map<std::pair<trace::Kind, tensor::Shape>, Records> shapes_;
};

}  // namespace ttrace::localize
