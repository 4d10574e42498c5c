// Which updates a specification has formulas for. An optimizer's numbers are constants in them, so
// they hold for one step, and for the settings that the reference had in it.
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>

#include "specification/specification.h"
#include "trace/manifest.h"

namespace ttrace::audit {

// Whether the kind is what an optimizer's step, or what follows it, leaves to the next step.
bool is_left_by_step(trace::Kind kind);
// The key of the same tensor before the step. Its kind is_left_by_step().
trace::TensorKey before_step(trace::TensorKey key);

class UpdateFormulas {
 public:
  // Both must outlive this.
  UpdateFormulas(const specification::Specification& specification, const trace::Manifest& run);

  // Why the formula of what a step leaves says nothing about this tensor; empty if it does. The key
  // is that of a tensor whose kind is_left_by_step().
  std::string why_not(const trace::TensorKey& key) const;

 private:
  // Why the inputs of a formula are not what the run has; empty if they are. A step of other
  // micro-batches is another formula.
  std::string other_input(const specification::Specification& of_step,
                          const specification::SpecifiedTensor& tensor, std::uint64_t step) const;

  std::map<std::uint64_t, const specification::Specification*> steps_;
  // Step and parameter -> its group.
  std::map<std::pair<std::uint64_t, std::string>, const trace::OptimizerGroup*> groups_;
  std::map<trace::TensorKey, const trace::TensorEntry*> entries_;
  std::map<std::uint64_t, std::set<std::uint64_t>> microbatches_;  // by step
};

}  // namespace ttrace::audit
