// The answer of a command from what its passes have left: findings are grouped and said in
// sentences here, once.
#pragma once

#include <cstddef>

#include "answer/answer.h"
#include "audit/verdict.h"
#include "comparison/result.h"
#include "localize/localization.h"

namespace ttrace::report {

// Which tensors an answer lists in its results.
enum class Detail {
  kAll,
  kFindings,  // those of findings and suspects, and the one closest to its limit
};

// How many ids before or after a finding an answer lists, and how many names and updates of a
// setting.
inline constexpr std::size_t kMostNeighbours = 100;

struct AnswerStyle {
  // All slices that were kept of every tensor. If false, the worst four of each finding.
  bool all_slices = false;
  Detail detail = Detail::kAll;
};

answer::Answer to_answer(const comparison::CompareReport& report, const AnswerStyle& style = {});
answer::Answer to_answer(const audit::AuditReport& report, Detail detail = Detail::kAll);
answer::Answer to_answer(const localize::LocalizeReport& report);

// Its result: with at most so many of the slices beyond their tolerance.
answer::AnsweredTensor tensor_of(const comparison::TensorComparison& result,
                                 std::size_t most_slices);

// The shards of the candidate that hold some of the difference, with their shares of its square,
// the largest first, as far as `most_ranks` go; none without a difference.
std::vector<answer::AnsweredTensor::Shard> shards_of(const comparison::TensorComparison& result,
                                                     std::size_t most_ranks);

// What judged a comparison.
answer::Answer::Tolerance tolerance_of(const comparison::CompareReport& report);

}  // namespace ttrace::report
