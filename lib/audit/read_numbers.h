// The Python numbers that a model reads from tensors, as item() does, to choose a slice or the next
// module. A specification has them as constants, so that its formulas may not hold for a
// micro-batch that reads other numbers: a tensor that does not follow there is no finding.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <tuple>

#include "measure/backend.h"
#include "specification/primitives/value.h"
#include "specification/specification.h"
#include "trace/key.h"
#include "trace/manifest.h"

namespace ttrace::audit {

class ReadNumbers {
 public:
  // The entry of a tensor of the specification in the micro-batch of a key, or null.
  using Find =
      std::function<const trace::TensorEntry*(std::size_t number, const trace::TensorKey& like)>;
  using Read = std::function<specification::Value(const trace::TensorEntry& entry)>;

  // `context` must outlive this.
  ReadNumbers(Find find, Read read, const measure::ExecutionContext& context);

  // Whether the micro-batch of that key has read another number than `specification` says, as far
  // as the recorded tensors tell. A floating-point number is another one if it differs by more than
  // rounding.
  bool differ(const specification::Specification& specification, const trace::TensorKey& key);

 private:
  bool is_other(const specification::Specification& specification, std::size_t number,
                const trace::TensorKey& key) const;

  Find find_;
  Read read_;
  const measure::ExecutionContext& context_;
  std::map<std::pair<std::uint64_t, std::optional<std::uint64_t>>, bool> known_;  // by micro-batch
};

}  // namespace ttrace::audit
