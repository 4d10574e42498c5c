// Known differences (schemas/known-v1.md): what people expect a run to differ in, until when and
// how far. Beyond its bound a difference counts as any other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "answer/answer.h"

namespace ttrace::report {

struct KnownDifference {
  std::string file;
  std::string id;       // of a tensor, a group of findings or a setting; or empty:
  std::string pattern;  // of the ids of tensors
  std::string owner;
  std::string reason;
  std::string expires;  // the last day that it holds, "2026-12-31", in UTC
  // The bound: each that is given must hold.
  std::string cause;
  std::string axis;
  std::optional<double> used;  // of a finding's tensors and of all that follows from them
  std::optional<std::vector<std::uint64_t>> ranks;  // at most these
};

enum class KnownState { kMatched, kBeyond, kExpired, kUnmatched };

// What a list of known differences makes of an answer.
struct KnownAnswer {
  struct Use {
    KnownState state = KnownState::kUnmatched;
    std::size_t findings = 0;  // that it excuses, in whole or in part
    std::string why;           // it excuses nothing that it matches
  };
  std::vector<Use> uses;                       // of each difference
  std::map<std::string, std::size_t> members;  // id of an excused tensor -> the difference
  std::set<std::string> findings;              // ids of excused findings
  std::set<std::string> consequences;          // ids of tensors that follow from excused ones
  std::uint64_t unbounded = 0;                 // consequences: how far they are off, nothing says
  std::vector<std::string> headlines;          // of excused findings
  std::vector<std::string> left;               // headlines of findings that count
  bool expired = false;                        // a difference is
  // Sentences of what follows from excused findings and counts all the same.
  std::vector<std::string> beyond;
};

// "matched", "beyond", "expired", "unmatched".
std::string_view state_name(KnownState state);

// `answer`: with the results of all tensors. `today`: "2026-11-26".
KnownAnswer judge_known(const answer::Answer& answer, const std::vector<KnownDifference>& known,
                        const std::string& today);

}  // namespace ttrace::report
