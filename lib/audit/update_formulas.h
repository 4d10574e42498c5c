// Which updates a specification has formulas for. An optimizer's numbers are constants in them, so
// they hold for one step, and for the settings that the reference had in it.
#pragma once

#include <map>
#include <string>

#include "specification/specification.h"
#include "trace/manifest.h"

namespace ttrace::audit {

// Whether the kind is what an optimizer's step, or what follows it, leaves to the next step.
bool is_left_by_step(trace::Kind kind);
// Whether the kind is that of what an optimizer's step reads or leaves, besides parameters.
bool is_of_update(trace::Kind kind);

class UpdateFormulas {
 public:
  // Both must outlive this.
  UpdateFormulas(const specification::Specification& specification, const trace::Manifest& run);

  // Why the formula of what a step leaves says nothing about this tensor; empty if it does. The key
  // is that of a tensor whose kind is_left_by_step().
  std::string why_not(const trace::TensorKey& key) const;

 private:
  const specification::Specification& specification_;
  // Why an input of the formula is not what the run has; empty if all are.
  std::string other_input(const specification::SpecifiedTensor& tensor) const;

  // Parameter -> its group in the step of the formulas.
  std::map<std::string, const trace::OptimizerGroup*> groups_;
  std::map<trace::TensorKey, const trace::TensorEntry*> entries_;  // of updates, in that step
};

}  // namespace ttrace::audit
