// Which variant of a specification each micro-batch of a run has the sizes of.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>

#include "specification/specification.h"
#include "trace/key.h"
#include "trace/manifest.h"

namespace ttrace::audit {

// Valid as long as the specification.
class RunVariants {
 public:
  // A micro-batch has the sizes of a variant if all tensors that it has recorded and the variant
  // has are of the variant's shapes; of several variants that with the most such tensors is taken,
  // and then that with the most tensors. The variant of one micro-batch is for that one alone.
  RunVariants(const specification::Specification& specification, const trace::Manifest& manifest);

  // The variant for the micro-batch of that key. The specification itself for what belongs to the
  // step, and where no variant fits: then it says what does not depend on sizes.
  const specification::Specification& of(const trace::TensorKey& key) const;

 private:
  using Microbatch = std::pair<std::uint64_t, std::optional<std::uint64_t>>;  // with its step

  const specification::Specification& specification_;
  std::map<Microbatch, const specification::Specification*> variants_;
};

}  // namespace ttrace::audit
