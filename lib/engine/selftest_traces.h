// The story of `ttrace selftest`: a healthy pair in, and out come the faults that a comparison of
// it would catch.
#pragma once

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "comparison/pairing.h"
#include "comparison/selftest_report.h"
#include "engine/compare_traces.h"
#include "measure/fault.h"
#include "trace/source.h"

namespace ttrace::engine {

// Tensors of up to this many elements are kept in memory while faults are tried (128 MiB a thread
// for the pair); larger ones are read again for every fault.
inline constexpr std::uint64_t kMostHeldElements = std::uint64_t{1} << 23;

// Compares the pair as compare_traces does. If it matches, every fault is put into one tensor of
// the candidate at a time, in a copy in memory, and judged as the comparison judges: same
// measurement, tolerances, slices, replicas and replay of the optimizer. The files are only read.
// Faults with sizes are tried on a ladder of δ from 1e-7 to 1, eight to a factor of 10, by
// bisection: everything that is judged is a convex function of δ that is within its limit at 0, so
// that what catches one δ catches all larger ones. Throws as compare_traces, and an input error if
// a shard can no longer be read. Everything but `environment` is the same for every number of
// threads.
comparison::SelftestReport selftest_traces(const trace::Source& reference,
                                           const trace::Source& candidate,
                                           const std::vector<const trace::Source*>& noise,
                                           CompareOptions options);

struct PlannedFault {
  comparison::FaultKind kind = comparison::FaultKind::kScaled;
  measure::Fault fault;  // with sizes: of factor 2, the largest
  std::string what;      // where it is, for people
  std::string problem;   // why there is no such fault, or empty
};

// Plans which faults can be put into a tensor, and where (fault_plan.cpp).
class FaultPlanner {
 public:
  // Both must outlive the planner.
  FaultPlanner(const trace::Source& candidate,
               const std::vector<comparison::TensorComparison>& results);

  // One of each kind, in the order of comparison::kAllFaults. `tensor`: the pair's candidate,
  // perhaps held in memory. Places are fixed by the key and the shape alone. Throws an input error
  // if a layout cannot be resolved.
  std::vector<PlannedFault> plan(const comparison::Pair& pair,
                                 const measure::TensorRef& tensor) const;

 private:
  using Series = std::tuple<trace::Kind, std::string, std::uint64_t, std::uint64_t>;

  void plan_dropped(const comparison::Pair& pair, PlannedFault& into) const;
  void plan_stale(const comparison::Pair& pair, PlannedFault& into) const;

  const trace::Source& candidate_;
  std::map<Series, std::vector<layout::ViewPtr>> series_;  // equal but for step and micro-batch
};

}  // namespace ttrace::engine
