// The sentence of a finding: what is wrong, whose it is, over which axis or ranks, and where.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "comparison/result.h"
#include "judge/outcome.h"
#include "localize/phase.h"
#include "localize/place.h"
#include "report/finding_groups.h"
#include "report/subject.h"

namespace ttrace::report {

// A finding of any command, as a sentence needs it.
struct ToldFinding {
  AlikeTensors tensors;
  localize::Phase phase = localize::Phase::kForward;
  localize::Place place;
  std::string called_at;                    // of the module, or empty
  const answer::Cause* cause = nullptr;     // null: none is known
  std::string_view outcome = "diverged";    // "replica_conflict", "missing", ...
  std::string reason = {};                  // of a tensor that cannot be compared
  std::vector<std::string> made_from = {};  // what it was made from and is right, in words
  std::vector<trace::MeshAxis> mesh = {};   // of the run
  // Of an earlier step that are off and were not judged: a sentence that lacks what is wrong.
  std::string updates = {};
};

std::string sentence_of(const ToldFinding& finding);

// Two bugs may have one cause and other factors: where the factors of `all` differ from that of
// `shown` by more than a tenth of its distance from one, `times` of it becomes "0.97 to 1.05".
answer::Cause with_all_factors(answer::Cause shown, const std::vector<const answer::Cause*>& all);

// The sentences of a comparison.
class Headlines {
 public:
  // `report` must outlive this.
  explicit Headlines(const comparison::CompareReport& report);

  // The headline of a group of findings, and of a setting in which the optimizers differ.
  std::string of(const FindingGroup& group) const;
  std::string of(const comparison::SettingDifference& setting) const;
  // The headline of an entry of the report's list.
  std::string of(const Listed& listed, const std::vector<FindingGroup>& groups) const;

 private:
  const AllOfKind* all_of(std::uint64_t step, trace::Kind kind) const;
  bool is_first_step(std::uint64_t step) const;
  // "16 of 53 updates of step 0 are off ...; first wrong after them", of the
  // first step before `step` that has such updates, or empty.
  std::string describe_updates_before(std::uint64_t step) const;

  const comparison::CompareReport& report_;
  std::map<std::pair<std::uint64_t, trace::Kind>, AllOfKind> all_;
  std::map<std::uint64_t, std::size_t> spread_updates_;  // how many were not judged, by step
};

}  // namespace ttrace::report
