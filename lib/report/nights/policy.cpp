#include "report/nights/policy.h"

#include <algorithm>

#include "answer/outcomes.h"
#include "audit/verdict.h"
#include "base/text.h"
#include "comparison/result.h"
#include "localize/localization.h"
#include "report/nights/diff.h"
#include "report/screen.h"

namespace ttrace::report {
namespace {

using answer::Answer;
using base::concat;

constexpr int kFailed = 1;
constexpr int kUndecided = 3;

std::vector<RequiredKind> count_required(const Answer& answer,
                                         const std::vector<std::string>& kinds) {
  std::vector<RequiredKind> required;
  for (const std::string& kind : kinds) required.push_back({kind});
  if (required.empty()) return required;
  if (answer.comparison) {  // `localize` has its counts alone
    for (const Answer::CheckedKind& counted : answer.comparison->kinds) {
      for (RequiredKind& one : required) {
        if (one.kind != counted.kind) continue;
        one.tensors = counted.tensors;
        one.checked = counted.checked;
      }
    }
    return required;
  }
  if (!answer.results) return required;
  for (const answer::AnsweredTensor& tensor : *answer.results) {
    for (RequiredKind& one : required) {
      if (one.kind != kind_name(tensor.key.kind)) continue;
      ++one.tensors;
      one.checked += answer::was_checked(tensor.outcome) ? 1 : 0;
    }
  }
  return required;
}

// Why an answer in which all findings are excused is inconclusive, or empty.
std::string doubt_beside(const Answer& answer, const KnownAnswer& known) {
  if (!answer.besides.empty()) return concat("nothing else is wrong, but ", answer.besides);
  if (!answer.coverage || known.unbounded == 0) return "";
  const Answer::Coverage& coverage = *answer.coverage;
  const std::uint64_t all = coverage.computed.value_or(coverage.tensors);
  const std::uint64_t unchecked = coverage.computed
                                      ? coverage.computed_unchecked.value_or(0)
                                      : all - std::min(all, coverage.judged.value_or(0));
  if (2 * (unchecked + known.unbounded) <= all) return "";
  return concat("nothing else is wrong, but ", known.unbounded, " of ", base::plural(all, "tensor"),
                " follow from known differences without a bound of `used`, so nothing says whether "
                "they are right otherwise");
}

// What was not checked, as the first line says it.
std::string unchecked_beside(const Answer& answer) {
  if (!answer.coverage) return "";
  const Answer::Coverage& coverage = *answer.coverage;
  if (coverage.remarks) {
    std::string text;
    for (const Answer::Remark& remark : *coverage.remarks) {
      if (remark.unchecked) text += concat("; ", remark.text);
    }
    return text;
  }
  const std::uint64_t judged = coverage.judged.value_or(0);
  return judged < coverage.tensors
             ? concat("; ", coverage.tensors - judged, " of ", coverage.tensors, " not judged")
             : "";
}

bool is_good(std::string_view verdict) {
  return verdict == comparison::kCompareWords.right || verdict == audit::kAuditWords.right ||
         verdict == localize::kLocalizeWords.right;
}

// The verdict of the command where nothing is wrong.
std::string_view good_verdict(const Answer& answer) {
  if (answer.command == "compare") return comparison::kCompareWords.right;
  return answer.comparison ? localize::kLocalizeWords.right : audit::kAuditWords.right;
}

// Whether an answer of `localize` has broken modules or code, which count even if all findings are
// known differences.
bool has_more_than_findings(const Answer& answer) {
  if (answer.code && !answer.code->empty()) return true;
  return answer.layers && std::any_of(answer.layers->begin(), answer.layers->end(),
                                      [](const auto& layer) { return !layer.broken.empty(); });
}

void set_doubt(const std::string& why, PolicedAnswer& out) {
  out.verdict = "inconclusive";
  out.why = why;
  out.headline = why;
  out.exit_code = kUndecided;
  out.changes_the_first_line = true;
}

void add_known(const Answer& answer, const AnswerPolicy& policy, PolicedAnswer& out) {
  if (policy.known.empty()) return;
  out.known = policy.known;
  out.by_known = judge_known(answer, policy.known, policy.today);
  const KnownAnswer& known = out.by_known;
  if (out.exit_code == kFailed && !known.headlines.empty()) {
    out.changes_the_first_line = true;
    const std::size_t count = known.headlines.size();
    if (!known.left.empty()) {
      out.headline = concat(known.left.front(), "; ", count, " known besides");
    } else if (!known.beyond.empty()) {
      out.headline = known.beyond.front();
    } else if (has_more_than_findings(answer)) {
      out.headline += concat("; ", count, " known besides");
    } else if (const std::string doubt = doubt_beside(answer, known); !doubt.empty()) {
      set_doubt(doubt, out);
    } else {
      out.verdict = good_verdict(answer);
      out.exit_code = 0;
      out.headline = known.headlines.front();
      if (count > 1) out.headline += concat(" and ", count - 1, " more");
      if (!known.consequences.empty()) {
        out.headline += concat("; ", known.consequences.size(), " that follow");
      }
      out.headline += "; nothing else" + unchecked_beside(answer);
    }
  }
  if (!known.expired) return;
  out.changes_the_first_line = true;
  for (std::size_t i = 0; i < known.uses.size(); ++i) {
    if (known.uses[i].state != KnownState::kExpired) continue;
    const KnownDifference& one = out.known[i];
    out.headline += concat("; expired on ", one.expires, ": ",
                           one.id.empty() ? one.pattern : one.id, " (", one.owner, ")");
  }
  if (out.exit_code == 0) out.exit_code = kFailed;
}

void add_required(const Answer& answer, const AnswerPolicy& policy, PolicedAnswer& out) {
  out.required = count_required(answer, policy.required);
  if (out.exit_code == kUndecided || !is_good(out.verdict)) return;
  for (const RequiredKind& one : out.required) {
    if (one.is_checked()) continue;
    set_doubt(
        concat("nothing is wrong, but ", one.kind, " was required, and ",
               one.tensors == 0 ? "there is none"
                                : concat(one.checked, " of ", base::plural(one.tensors, "tensor"),
                                         " of it ", one.checked == 1 ? "was" : "were", " checked")),
        out);
    return;
  }
}

void add_news(const Answer& answer, const std::string& name, const AnswerPolicy& policy,
              PolicedAnswer& out) {
  if (!policy.since) return;
  const NightDiff diff = diff_nights(night_of(*policy.since, policy.since_file),
                                     night_of(after_policy(answer, out), name));
  out.news = {policy.since_file, std::string(diff.verdict()), diff.headline(), diff.exit_code};
  if (is_good(out.verdict) && out.exit_code == 0 && diff.exit_code == kUndecided) {
    return set_doubt(diff.why, out);
  }
  if (out.exit_code != kFailed || out.by_known.expired) return;
  out.changes_the_first_line = true;
  out.headline = concat(diff.verdict(), " since ", policy.since_file, ": ",
                        diff.exit_code == kFailed ? "" : out.headline + "; ", diff.headline());
  out.exit_code = diff.exit_code;
}

// Marks what is excused: a finding by the number of its entry of `known`, a tensor by true.
void mark_excused(const KnownAnswer& known, Answer& answer) {
  for (answer::AnsweredFinding& finding : answer.findings) {
    if (!known.findings.contains(finding.id) && !known.findings.contains(finding.group)) continue;
    const auto member = known.members.find(finding.id);
    const bool by_member =
        member == known.members.end() && finding.members && !finding.members->empty();
    finding.known = member != known.members.end() ? member->second
                    : by_member                   ? known.members.at(finding.members->front())
                                                  : 0;
  }
  if (!answer.results) return;
  for (answer::AnsweredTensor& tensor : *answer.results) {
    tensor.known = known.members.contains(tensor.id) || known.consequences.contains(tensor.id);
  }
}

}  // namespace

std::size_t PolicedAnswer::but_for_known() const {
  return is_good(verdict) ? by_known.headlines.size() : 0;
}

PolicedAnswer apply_policy(const Answer& answer, const std::string& name,
                           const AnswerPolicy& policy) {
  PolicedAnswer out;
  out.verdict = answer.verdict;
  out.headline = answer.headline;
  out.why = answer.why;
  out.exit_code = static_cast<int>(answer.exit_code);
  add_known(answer, policy, out);
  add_required(answer, policy, out);
  add_news(answer, name, policy, out);
  return out;
}

Answer after_policy(Answer answer, const PolicedAnswer& policed) {
  answer.verdict = policed.verdict;
  answer.headline = policed.headline;
  answer.exit_code = static_cast<std::uint64_t>(policed.exit_code);
  answer.why = policed.why;
  mark_excused(policed.by_known, answer);
  if (!policed.known.empty()) {
    answer.but_for_known = policed.but_for_known();
    answer.known.emplace();
    for (std::size_t i = 0; i < policed.known.size(); ++i) {
      const KnownDifference& known = policed.known[i];
      const KnownAnswer::Use& use = policed.by_known.uses[i];
      answer.known->push_back({known.id, known.pattern, known.file, known.owner, known.reason,
                               known.expires, std::string(state_name(use.state)), use.findings,
                               use.why});
    }
    answer.beyond_known = policed.by_known.beyond;
  }
  for (const RequiredKind& one : policed.required) {
    answer.required.push_back({one.kind, one.tensors, one.checked});
  }
  if (const auto& news = policed.news) {
    answer.since = {news->file, news->verdict, news->headline,
                    static_cast<std::uint64_t>(news->exit_code)};
  }
  return answer;
}

void write_known(const PolicedAnswer& policed, const TextStyle& style, std::ostream& out) {
  for (std::size_t i = 0; i < policed.known.size(); ++i) {
    const KnownDifference& known = policed.known[i];
    const KnownAnswer::Use& use = policed.by_known.uses[i];
    std::string text = concat("  ", use.state == KnownState::kMatched ? "known    " : "entry    ",
                              known.id.empty() ? known.pattern : known.id, "  ", known.owner,
                              ", until ", known.expires, ": ", known.reason);
    switch (use.state) {
      case KnownState::kMatched:
        text += concat(" (", base::plural(use.findings, "finding"), ")");
        break;
      case KnownState::kBeyond:
        text += concat("; excuses nothing: ", use.why);
        break;
      case KnownState::kExpired:
        text += concat("; has expired: mend it, or give it another day in ", known.file);
        break;
      case KnownState::kUnmatched:
        text += concat("; matched nothing: take it out of ", known.file, " if it is mended");
        break;
    }
    out << folded(base::printable(text), style.width) << "\n";
  }
  for (const std::string& one : policed.by_known.beyond) {
    out << folded(base::printable(concat("  beyond   ", one)), style.width) << "\n";
  }
}

}  // namespace ttrace::report
