// What the person at the command makes of an answer: differences that are known, kinds that must
// have been checked, and whether only what is new counts.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "answer/answer.h"
#include "report/nights/known.h"
#include "report/terminal_text.h"

namespace ttrace::report {

struct AnswerPolicy {
  std::vector<KnownDifference> known;
  std::string today;                  // in UTC, "2026-11-26"
  std::vector<std::string> required;  // names of kinds
  // The answer since which something must be new to count; nothing: everything counts.
  std::optional<answer::Answer> since;
  std::string since_file;

  bool is_empty() const { return known.empty() && required.empty() && since_file.empty(); }
};

struct RequiredKind {
  std::string kind;
  std::uint64_t tensors = 0;
  std::uint64_t checked = 0;
  // Some were, and of ten not more than one was not.
  bool is_checked() const { return checked > 0 && 10 * (tensors - checked) <= tensors; }
};

struct News {
  std::string file;
  std::string verdict;  // of the comparison with the older report
  std::string headline;
  int exit_code = 0;
};

// An answer after a policy.
struct PolicedAnswer {
  std::string verdict;
  std::string headline;
  std::string why;  // of an inconclusive verdict
  int exit_code = 0;
  std::vector<KnownDifference> known;
  KnownAnswer by_known;
  std::vector<RequiredKind> required;
  std::optional<News> news;
  bool changes_the_first_line = false;

  // The number of known differences that a good verdict excuses; 0 if the verdict is not good.
  std::size_t but_for_known() const;
};

// `answer`: with all tensors. `name`: what messages call it.
PolicedAnswer apply_policy(const answer::Answer& answer, const std::string& name,
                           const AnswerPolicy& policy);

// The answer, with all tensors or those of findings alone, after the policy.
answer::Answer after_policy(answer::Answer answer, const PolicedAnswer& policed);

// A line for each known difference: whose it is, and what it excuses.
void write_known(const PolicedAnswer& policed, const TextStyle& style, std::ostream& out);

}  // namespace ttrace::report
