// Gradients of biases and norms are sums over all tokens. Where these were added up in a narrow
// accumulator, the reference itself is off by more than any perturbed run shows: they all lose the
// same small terms to the same large sum. What the reference lost can be told from its own trace.
#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "comparison/pairing.h"
#include "measure/backend.h"
#include "trace/source.h"

namespace ttrace::comparison {

class AccumulationError {
 public:
  // All must outlive it.
  AccumulationError(const trace::Source& reference, const std::vector<TensorComparison>& results,
                    const measure::Backend& backend);

  // What rounding in the accumulator added to every element of the reference's gradient: of a raw
  // one of one dimension, whose module "m" (of "m.weight") was called once with an input and a
  // gradient of its output recorded, in whose last dimension it lies; of a main gradient that is a
  // multiple of the sum of such. Empty where there is nothing to tell by, or what is recorded was
  // not made this way. Reads the reference, for each gradient once; may be called by several
  // threads.
  std::vector<double> own_rounding(const trace::TensorKey& key) const;

 private:
  std::vector<double> made(const trace::TensorKey& key) const;
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
  mutable std::map<trace::TensorKey, std::size_t> index_;  // from the first question on
  mutable std::map<trace::TensorKey, std::vector<double>> known_;
};

}  // namespace ttrace::comparison
