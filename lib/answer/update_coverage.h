// How many parameters of a run had their updates judged: a comparison and an audit that have not
// judged them say nothing of the optimizer's step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace ttrace::answer {

// With more than this share of the parameters' updates unjudged, nothing is said of the step.
inline constexpr double kMostUnjudgedUpdates = 0.1;

struct UpdateCoverage {
  std::uint64_t parameters = 0;       // that the steps update, or that were recorded after them
  std::vector<std::string> unjudged;  // those with an update that was not judged, ascending
  std::string reason;                 // why most of their updates were not

  // "the updates of 12 of 148 parameters were not judged"; empty if all were.
  std::string describe() const;
  // The same and why, if they are too many for the step to be judged; else empty.
  std::string why_too_few() const;
};

// Counts updates, each of one parameter in one step.
class UpdateCount {
 public:
  // `reason`: why it was not judged.
  void add(const std::string& parameter, bool judged, const std::string& reason);
  UpdateCoverage total() const;

 private:
  std::map<std::string, bool> judged_;  // all updates of the parameter
  std::map<std::string, std::uint64_t> reasons_;
};

}  // namespace ttrace::answer
