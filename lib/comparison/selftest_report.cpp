#include "comparison/selftest_report.h"

#include <algorithm>
#include <limits>
#include <map>

namespace ttrace::comparison {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

// The size at which `numerator` of `denominator` of the tensors are caught; `sizes` ascending.
std::optional<double> caught_at(const std::vector<double>& sizes, std::size_t numerator,
                                std::size_t denominator) {
  if (sizes.empty()) return std::nullopt;
  const std::size_t needed = (sizes.size() * numerator + denominator - 1) / denominator;
  const double size = sizes[needed - 1];
  return size < kNever ? std::optional(size) : std::nullopt;
}

FaultSummary summary_of(FaultKind fault, const std::vector<SelftestTensor>& tensors,
                        const std::vector<std::size_t>& members) {
  FaultSummary summary;
  std::vector<double> sizes;
  for (const std::size_t i : members) {
    const Trial& trial = tensors[i].trial(fault);
    if (trial.state == TrialState::kUnchanged) ++summary.unchanged;
    if (trial.state != TrialState::kCaught && trial.state != TrialState::kMissed) continue;
    ++summary.tried;
    const bool caught = trial.state == TrialState::kCaught;
    summary.caught += caught ? 1 : 0;
    const double size = caught ? trial.size : kNever;
    if (sizes.empty() || size > *std::max_element(sizes.begin(), sizes.end())) summary.weakest = i;
    sizes.push_back(size);
  }
  if (!has_sizes(fault)) {
    if (summary.caught == summary.tried) summary.weakest.reset();
    return summary;
  }
  std::sort(sizes.begin(), sizes.end());
  summary.half = caught_at(sizes, 1, 2);
  summary.nine_of_ten = caught_at(sizes, 9, 10);
  summary.all = caught_at(sizes, 1, 1);
  return summary;
}

}  // namespace

std::string_view fault_name(FaultKind kind) {
  switch (kind) {
    case FaultKind::kScaled:
      return "scaled";
    case FaultKind::kPartScaled:
      return "part_scaled";
    case FaultKind::kSwapped:
      return "shards_swapped";
    case FaultKind::kDropped:
      return "part_dropped";
    case FaultKind::kRowZeroed:
      return "row_zeroed";
    case FaultKind::kStale:
      return "stale";
    case FaultKind::kRounded:
      return "rounded_to_bf16";
  }
  return "";
}

bool has_sizes(FaultKind kind) {
  return kind == FaultKind::kScaled || kind == FaultKind::kPartScaled;
}

std::string_view state_name(TrialState state) {
  switch (state) {
    case TrialState::kCaught:
      return "caught";
    case TrialState::kMissed:
      return "missed";
    case TrialState::kUnchanged:
      return "unchanged";
    case TrialState::kImpossible:
      return "impossible";
  }
  return "";
}

bool checks_nothing(const SelftestTensor& tensor) {
  return !tensor.unjudged.empty() || tensor.trial(FaultKind::kScaled).state == TrialState::kMissed;
}

int exit_code(const SelftestReport& report) {
  if (report.pair != answer::Verdict::kRight) return exit_code(report.pair);
  return exit_code(report.why.empty() ? answer::Verdict::kRight : answer::Verdict::kInconclusive);
}

std::vector<SelftestGroup> groups_of(const std::vector<SelftestTensor>& tensors) {
  std::map<std::pair<trace::Kind, tensor::DType>, std::vector<std::size_t>> members;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    members[{tensors[i].key.kind, tensors[i].dtype}].push_back(i);
  }
  std::vector<SelftestGroup> groups;
  for (const auto& [what, indices] : members) {
    SelftestGroup group;
    group.kind = what.first;
    group.dtype = what.second;
    group.tensors = indices.size();
    for (const std::size_t i : indices) group.blind += checks_nothing(tensors[i]) ? 1 : 0;
    for (const FaultKind fault : kAllFaults) {
      group.faults[static_cast<std::size_t>(fault)] = summary_of(fault, tensors, indices);
    }
    groups.push_back(std::move(group));
  }
  return groups;
}

}  // namespace ttrace::comparison
