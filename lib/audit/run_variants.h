// Which variant of a specification each micro-batch of a run has the sizes of.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "specification/specification.h"
#include "trace/key.h"
#include "trace/manifest.h"

namespace ttrace::audit {

// Valid as long as the specification.
class RunVariants {
 public:
  // A micro-batch has the sizes of a variant if all tensors that it has recorded and the variant
  // has too have the variant's shapes. Of several such variants, takes the one with the most such
  // tensors, then the one with the most tensors. A variant for a single micro-batch fits no other.
  RunVariants(const specification::Specification& specification, const trace::Manifest& manifest);

  // The variant for the micro-batch of that key. The specification itself if the key belongs to the
  // step, or if no variant fits: it then says what does not depend on sizes.
  const specification::Specification& of(const trace::TensorKey& key) const;

  // Whether the micro-batch has sizes that the specification, which has no variants, does not say,
  // where values of the model decide on them. In the first step it would be one of another model or
  // batch: require_fits() throws.
  bool has_other_sizes(const trace::TensorKey& key) const {
    return other_sizes_.contains({key.step, key.microbatch});
  }

 private:
  using Microbatch = std::pair<std::uint64_t, std::optional<std::uint64_t>>;  // with its step

  const specification::Specification& specification_;
  std::map<Microbatch, const specification::Specification*> variants_;
  std::set<Microbatch> other_sizes_;
};

}  // namespace ttrace::audit
