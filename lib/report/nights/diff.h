// What is new between the reports of two nights, joined by the ids of tensors: findings are joined
// where they share members.
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

// What became of a tensor that is not as it was.
enum class Change {
  kNewlyDiverged,  // or was a known difference, and is none any more
  kNewlyKnown,     // newly diverged as a known difference
  kHealed,         // was wrong, and was checked and is right
  kWorse,          // used moved by a quarter of itself and by 0.05
  kBetter,
  kUnchecked,  // was checked, and is not any more
  kVanished,   // is in the older report alone
  kAppeared,   // is in the newer one alone, and not wrong
  kUntold,     // wrong in one report; the other has the tensors of findings alone, and not this one
};

inline constexpr std::array kAllChanges{
    Change::kNewlyDiverged, Change::kNewlyKnown, Change::kHealed,   Change::kWorse, Change::kBetter,
    Change::kUnchecked,     Change::kVanished,   Change::kAppeared, Change::kUntold};

// For programs: "newly_diverged".
std::string_view change_name(Change change);

struct ChangedTensor {
  std::string id;
  std::string was;  // its outcome, or "absent"; "not listed" in a report of findings alone
  std::string is;   // likewise
  std::optional<double> used_before;
  std::optional<double> used_now;
};

enum class FindingStatus {
  kNew,        // a tensor of it is newly diverged, and none was of a finding
  kSame,       // shares tensors with a finding of the older report
  kUncovered,  // all of its tensors were wrong already, as what followed from another finding
  kHealed,     // of the older report: all of its tensors were checked and are right
  kGone,       // of the older report: it is no finding any more, and not all of it healed
};

struct ChangedFinding {
  FindingStatus status = FindingStatus::kNew;
  std::string id;
  std::string headline;
  std::uint64_t members = 0;
  std::uint64_t newly_diverged = 0;  // of the members
  std::string before = {};           // the finding of the older report, where it is the same
};

// "new", "same", "uncovered", "healed", "gone".
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
  std::string why;                   // it is inconclusive, or empty
  int exit_code = 0;  // 0 nothing newly diverged, 1 something is, 3 that cannot be said

  const std::vector<ChangedTensor>& of(Change change) const {
    return tensors[static_cast<std::size_t>(change)];
  }
  std::string_view verdict() const;  // "new", "nothing new", "inconclusive"
  std::string headline() const;
};

// Throws an input error if the reports are of two commands.
NightDiff diff_nights(Night older, Night newer);

// The same of the JSON of reports, and the files that it is from. Both are read at once.
NightDiff diff_reports(std::string_view older, const std::string& older_file,
                       std::string_view newer, const std::string& newer_file);

}  // namespace ttrace::report
