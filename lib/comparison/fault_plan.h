// The faults that `ttrace selftest` puts into a tensor.
#pragma once

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "comparison/pairing.h"
#include "comparison/selftest_report.h"
#include "comparison/tensor_comparison.h"
#include "measure/fault.h"
#include "trace/source.h"

namespace ttrace::comparison {

struct PlannedFault {
  FaultKind kind = FaultKind::kScaled;
  measure::Fault fault;  // for a fault with sizes: the largest, a factor of 2
  std::string what;      // where it is, for people
  std::string problem;   // why there is no such fault, or empty
};

// Plans which faults can be put into a tensor, and where.
class FaultPlanner {
 public:
  // Both must outlive the planner.
  FaultPlanner(const trace::Source& candidate, const std::vector<TensorComparison>& results);

  // One of each kind, in the order of kAllFaults. `tensor`: the pair's candidate,
  // perhaps held in memory. Places are fixed by the key and the shape alone. Throws an input error
  // if a layout cannot be resolved.
  std::vector<PlannedFault> plan(const Pair& pair, const measure::TensorRef& tensor) const;

 private:
  using Series = std::tuple<trace::Kind, std::string, std::uint64_t, std::uint64_t>;

  void plan_dropped(const Pair& pair, PlannedFault& into) const;
  void plan_stale(const Pair& pair, PlannedFault& into) const;

  const trace::Source& candidate_;
  std::map<Series, std::vector<layout::ViewPtr>> series_;  // equal but for step and micro-batch
};

}  // namespace ttrace::comparison
