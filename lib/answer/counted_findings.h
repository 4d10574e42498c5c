// The findings of an answer as people count them: of a comparison, alike ones are one.
#pragma once

#include <string>
#include <vector>

#include "answer/answer.h"

namespace ttrace::answer {

// Points into the answer.
struct CountedFinding {
  const AnsweredFinding* finding = nullptr;  // of a group the one that stands for it
  const Answer::Group* group = nullptr;      // null: it is in none

  // The sentence: its group's, its own, or else its title or id.
  const std::string& heading() const;
  // Ids of its tensors, or of the setting itself: of a group its findings.
  std::vector<TensorId> members() const;
};

// In the order of the answer, a group in the place of its first finding.
std::vector<CountedFinding> counted_findings(const Answer& answer);

// What a finding is about: its members, or itself.
std::vector<TensorId> members_of(const AnsweredFinding& finding);

}  // namespace ttrace::answer
