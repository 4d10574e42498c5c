// Compares the reports of two nights and says what is new. Tensors are matched by their ids, and
// findings by the tensors that they share.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "report/nights/night.h"

namespace ttrace::report {

// How a tensor differs between the two reports.
enum class Change {
  kNewlyDiverged,  // wrong now and not before, or no longer excused as a known difference
  kOtherwise,      // wrong in both, and in another way now (Otherwise::why)
  kNewlyKnown,     // wrong now and not before, and excused as a known difference
  kHealed,         // wrong before; checked again and right
  kWorse,          // `used` rose by at least a quarter of itself and by at least 0.05
  kBetter,         // `used` fell as much
  kUnchecked,      // checked before, not checked now
  kVanished,       // only in the older report, which the newer one would list if it were there
  kAppeared,       // only in the newer report, and not wrong
  kUntold,         // wrong in one report; the other lists only findings, so it says nothing of it
};

inline constexpr std::array kAllChanges{
    Change::kNewlyDiverged, Change::kOtherwise, Change::kNewlyKnown, Change::kHealed,
    Change::kWorse,         Change::kBetter,    Change::kUnchecked,  Change::kVanished,
    Change::kAppeared,      Change::kUntold};

// For programs: "newly_diverged".
std::string_view change_name(Change change);

struct ChangedTensor {
  std::string id;
  std::string was;  // its outcome, or "absent"; "not listed" in a report of findings alone
  std::string is;   // likewise
  std::optional<double> used_before;
  std::optional<double> used_now;
  std::string why = {};  // of kOtherwise: what is new
};

enum class FindingStatus {
  kNew,        // shares no tensor with an older finding, and has a newly diverged one
  kSame,       // shares tensors with a finding of the older report
  kChanged,    // the same, but a tensor of it is wrong in another way now
  kUncovered,  // shares none, and none is newly diverged: they were downstream of another finding
  kHealed,     // only in the older report: all of its tensors were checked again and are right
  kGone,       // only in the older report, and not all of its tensors healed
};

struct ChangedFinding {
  FindingStatus status = FindingStatus::kNew;
  std::string id;
  std::string headline;
  std::uint64_t members = 0;
  std::uint64_t newly_diverged = 0;  // of the members
  std::uint64_t otherwise = 0;       // likewise: wrong in another way than before
  std::string before = {};           // id of the older report's finding, for kSame and kChanged
};

// "new", "same", "changed", "uncovered", "healed", "gone".
std::string_view status_name(FindingStatus status);

struct ChangedCircumstance {
  std::string what;  // "commit of the candidate"
  std::string was;   // empty where the report does not say it
  std::string is;
};

struct NightDiff {
  Night older;
  Night newer;
  std::uint64_t in_common = 0;         // tensors
  std::uint64_t diverged_in_both = 0;  // tensors
  std::array<std::vector<ChangedTensor>, kAllChanges.size()> tensors;
  std::vector<ChangedFinding> findings;  // of the newer report, then those that it lacks
  std::vector<ChangedCircumstance> circumstances;
  std::vector<std::string> remarks;  // why the answer is worth less than it looks
  std::string why;                   // the reason of an inconclusive verdict, otherwise empty
  int exit_code = 0;                 // 0: nothing is new, 1: something is, 3: inconclusive

  const std::vector<ChangedTensor>& of(Change change) const {
    return tensors[static_cast<std::size_t>(change)];
  }
  std::string_view verdict() const;  // "new", "nothing new", "inconclusive"
  std::string headline() const;
};

// Throws an input error if the reports come from different commands.
NightDiff diff_nights(Night older, Night newer);

}  // namespace ttrace::report
