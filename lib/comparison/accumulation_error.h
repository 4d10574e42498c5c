// Gradients of biases and norms are sums over all tokens. Where a narrow accumulator added them up,
// the reference itself has a larger error than perturbed runs show: they all lose the same small
// terms to the same large sum. Computes this error from the reference's own trace.
#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "comparison/tensor_comparison.h"
#include "measure/backend.h"
#include "measure/tensor_reader.h"
#include "trace/source.h"

namespace ttrace::comparison {

// Returns the sums over all rows of g (a bias), then of g·x̂ with x̂ the row of `input` normalised as
// by LayerNorm, (x - mean)/√(variance + ε), for every ε that is in use, then as by RMSNorm,
// x/√(mean square + ε). `gradient` and `input` have one shape, whose last dimension is a row.
// `precision` is the accumulator's. Without `input` (null): the first sum alone. `threads` (at
// least 1): each adds up an equal run of rows, the last one perhaps fewer, as torch's
// at::parallel_for cuts them; their sums are added up without rounding. Source: the definitions of
// torch.nn.LayerNorm and torch.nn.RMSNorm. Throws an input error if a shard cannot be read.
std::vector<measure::ColumnSums> sum_rows(const measure::Backend& backend,
                                          const measure::TensorRef& gradient,
                                          const measure::TensorRef* input, tensor::DType precision,
                                          std::uint64_t threads = 1);

// Returns the sums of images, [images, channels, ...], over everything but the channels: the
// gradient of the bias of a convolution or of a batch norm. The images are added up one after the
// other. Throws an input error if a shard cannot be read.
measure::ColumnSums sum_channels(const measure::TensorRef& gradient, tensor::DType precision);

// The largest error, as a multiple of that of one thread that adds up row by row. Several threads
// lose less than one, so a larger error has another origin.
inline constexpr double kMostOfStepwise = 2;

// Returns what rounding in the accumulator added to `recorded`, by element: |recorded - exact| of
// the nearest sum, and at least `cancelled` (may be empty) if that is the first. Nothing if
// `recorded` is farther off than that and than twice what rounding after every term adds: it was
// then made in another way.
std::optional<std::vector<double>> accumulated_rounding(
    const std::vector<double>& recorded, const std::vector<measure::ColumnSums>& sums,
    const std::vector<double>& cancelled = {});

class AccumulationError {
 public:
  // All must outlive it.
  AccumulationError(const trace::Source& reference, const std::vector<TensorComparison>& results,
                    const measure::Backend& backend);

  // Returns what rounding in the accumulator added to every element of the reference's gradient,
  // or may add to that of a run whose kernels add up in another order.
  // This is known for a raw gradient of one dimension whose module "m" (of "m.weight") was called
  // once and recorded its input and the gradient of its output, both with as many columns, or
  // channels of images, as the gradient has elements; and for a main gradient that is a multiple of
  // the sum of its raw gradients: what these lost, where that is known, and what adding them up in
  // another order may lose. Empty if tensors are lacking, or if the gradient was made in another
  // way. Reads the reference, for each gradient once; several threads may call it.
  std::vector<double> own_rounding(const trace::TensorKey& key) const;

 private:
  std::vector<double> compute(const trace::TensorKey& key) const;
  std::optional<std::vector<double>> of_raw(const trace::TensorKey& key) const;
  std::vector<double> of_main(const trace::TensorKey& key) const;
  const layout::View* find(const trace::TensorKey& key) const;
  std::optional<measure::TensorRef> value(const trace::TensorKey& like, trace::Kind kind,
                                          const std::string& name) const;
  std::vector<double> read(const trace::TensorKey& key) const;

  const trace::Source& reference_;
  const std::vector<TensorComparison>& results_;
  const measure::Backend& backend_;
  mutable std::mutex mutex_;
  mutable std::map<trace::TensorKey, std::size_t> index_;  // built by the first call
  mutable std::map<trace::TensorKey, std::vector<double>> known_;
};

}  // namespace ttrace::comparison
