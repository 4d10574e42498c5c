#include "report/nights/policy.h"

#include <algorithm>

#include "base/strict_json.h"
#include "base/text.h"
#include "report/nights/diff.h"
#include "report/page/page_answer.h"
#include "report/page/read_parts.h"
#include "report/screen.h"

namespace ttrace::report {
namespace {

using base::concat;
using base::JsonCursor;

constexpr int kFailed = 1;
constexpr int kUndecided = 3;

std::vector<RequiredKind> count_required(const JsonCursor& root,
                                         const std::vector<std::string>& kinds) {
  std::vector<RequiredKind> required;
  for (const std::string& kind : kinds) required.push_back({kind});
  if (required.empty()) return required;
  if (const auto compared = root.find("comparison")) {  // `localize` has its counts alone
    for (const JsonCursor& counted : compared->require("kinds").items()) {
      for (RequiredKind& one : required) {
        if (one.kind != counted.require("kind").as_text()) continue;
        one.tensors = counted.require("tensors").as_count();
        one.checked = counted.require("checked").as_count();
      }
    }
    return required;
  }
  for (const JsonCursor& result : root.require("results").items()) {
    const std::string_view kind = result.require("key").require("kind").as_text();
    for (RequiredKind& one : required) {
      if (one.kind != kind) continue;
      ++one.tensors;
      one.checked += was_checked(result.require("outcome").as_text()) ? 1 : 0;
    }
  }
  return required;
}

// Why an answer in which all findings are excused is inconclusive, or empty.
std::string doubt_beside(const JsonCursor& root, const KnownAnswer& known) {
  if (const std::string besides = text_at(root, "besides"); !besides.empty()) {
    return concat("nothing else is wrong, but ", besides);
  }
  const auto coverage = root.find("coverage");
  if (!coverage || known.unbounded == 0) return "";
  const bool compared = coverage->find("computed").has_value();
  const std::uint64_t all = coverage->require(compared ? "computed" : "tensors").as_count();
  const std::uint64_t unchecked = compared
                                      ? coverage->require("computed_unchecked").as_count()
                                      : all - std::min(all, coverage->require("judged").as_count());
  if (2 * (unchecked + known.unbounded) <= all) return "";
  return concat("nothing else is wrong, but ", known.unbounded, " of ", base::plural(all, "tensor"),
                " follow from known differences without a bound of `used`, so nothing says whether "
                "they are right otherwise");
}

// What was not checked, as the first line says it.
std::string unchecked_beside(const JsonCursor& root) {
  const auto coverage = root.find("coverage");
  if (!coverage) return "";
  std::string text;
  if (const auto remarks = coverage->find("remarks")) {
    for (const JsonCursor& remark : remarks->items()) {
      if (remark.require("unchecked").as_bool()) {
        text += concat("; ", remark.require("text").as_string());
      }
    }
    return text;
  }
  const std::uint64_t all = coverage->require("tensors").as_count();
  const std::uint64_t judged = coverage->require("judged").as_count();
  return judged < all ? concat("; ", all - judged, " of ", all, " not judged") : "";
}

bool is_good(std::string_view verdict) {
  return verdict == "match" || verdict == "holds" || verdict == "nothing to explain";
}

// The verdict of the command where nothing is wrong.
std::string good_verdict(const JsonCursor& root) {
  if (root.find("frontier")) return "match";
  return root.find("comparison") ? "nothing to explain" : "holds";
}

// Whether an answer of `localize` has broken modules or code, which count even if all findings are
// known differences.
bool has_more_than_findings(const JsonCursor& root) {
  if (const auto code = root.find("code"); code && !code->items().empty()) return true;
  const auto layers = root.find("layers");
  if (!layers) return false;
  const std::vector<JsonCursor> all = layers->items();
  return std::any_of(all.begin(), all.end(), [](const JsonCursor& layer) {
    return !layer.require("broken").items().empty();
  });
}

void set_doubt(const std::string& why, PolicedAnswer& out) {
  out.verdict = "inconclusive";
  out.why = why;
  out.headline = why;
  out.exit_code = kUndecided;
  out.changes_the_first_line = true;
}

void add_known(const JsonCursor& root, const AnswerPolicy& policy, PolicedAnswer& out) {
  if (policy.known.empty()) return;
  out.known = policy.known;
  out.by_known = judge_known(root, policy.known, policy.today);
  const KnownAnswer& known = out.by_known;
  if (out.exit_code == kFailed && !known.headlines.empty()) {
    out.changes_the_first_line = true;
    const std::size_t count = known.headlines.size();
    if (!known.left.empty()) {
      out.headline = concat(known.left.front(), "; ", count, " known besides");
    } else if (!known.beyond.empty()) {
      out.headline = known.beyond.front();
    } else if (has_more_than_findings(root)) {
      out.headline += concat("; ", count, " known besides");
    } else if (const std::string doubt = doubt_beside(root, known); !doubt.empty()) {
      set_doubt(doubt, out);
    } else {
      out.verdict = good_verdict(root);
      out.exit_code = 0;
      out.headline = known.headlines.front();
      if (count > 1) out.headline += concat(" and ", count - 1, " more");
      if (!known.consequences.empty()) {
        out.headline += concat("; ", known.consequences.size(), " that follow");
      }
      out.headline += "; nothing else" + unchecked_beside(root);
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

void add_required(const JsonCursor& root, const AnswerPolicy& policy, PolicedAnswer& out) {
  out.required = count_required(root, policy.required);
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

void add_news(std::string_view report, const std::string& file, const AnswerPolicy& policy,
              PolicedAnswer& out) {
  if (policy.since_file.empty()) return;
  const std::string after = policed_json(report, out);
  const NightDiff diff = diff_reports(policy.since, policy.since_file, after, file);
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

}  // namespace

std::size_t PolicedAnswer::but_for_known() const {
  return is_good(verdict) ? by_known.headlines.size() : 0;
}

PolicedAnswer apply_policy(std::string_view text, const std::string& file,
                           const AnswerPolicy& policy) {
  const base::JsonDocument document(text, file);
  const JsonCursor root = document.root();
  PolicedAnswer out;
  out.verdict = root.require("verdict").as_string();
  out.headline = text_at(root, "headline");
  out.why = text_at(root, "why");
  out.exit_code = static_cast<int>(root.require("exit_code").as_count());
  add_known(root, policy, out);
  add_required(root, policy, out);
  add_news(text, file, policy, out);
  return out;
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
