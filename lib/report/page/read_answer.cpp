#include "report/page/read_answer.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "base/text.h"
#include "judge/outcome.h"
#include "report/audit_report.h"
#include "report/json/compare_report_json.h"
#include "report/localize_report.h"
#include "report/nights/diff_text.h"
#include "report/nights/trend.h"
#include "report/page/page_answer.h"
#include "report/page/read_parts.h"

namespace ttrace::report {
namespace {

// What reads an answer, by its schema.
struct Reader {
  std::string_view schema;
  void (*read)(const base::JsonCursor& root, PageAnswer& answer);
};

constexpr Reader kReaders[] = {
    {kReportSchema, read_compare}, {kAuditSchema, read_audit}, {kLocalizeSchema, read_localize},
    {kDiffSchema, read_diff},      {kTrendSchema, read_trend},
};

// Adds to each finding the known difference that excuses it, and to each known difference that
// excuses nothing the reason.
void add_known_differences(const base::JsonCursor& root, PageAnswer& answer) {
  const auto list = root.find("known");
  if (!list) return;
  std::vector<std::string> sentences;
  for (const base::JsonCursor& one : list->items()) {
    const std::string id = text_at(one, "id");
    const std::string state = text_at(one, "state");
    sentences.push_back(base::concat(id.empty() ? text_at(one, "pattern") : id, ", ",
                                     text_at(one, "owner"), ", until ", text_at(one, "expires"),
                                     ": ", text_at(one, "reason")));
    if (state == "matched") continue;
    const std::string why = text_at(one, "why");
    answer.remarks.push_back(base::concat("known difference ", sentences.back(), ": ", words(state),
                                          why.empty() ? "" : ", ", why));
  }
  std::map<std::string, std::uint64_t> by_id;
  const auto findings = root.find("frontier");
  for (const base::JsonCursor& item : (findings ? *findings : root.require("findings")).items()) {
    const auto known = item.find("known");
    if (known) by_id.emplace(item.require("id").as_string(), known->as_count());
  }
  for (PageFinding& finding : answer.findings) {
    const auto by = by_id.find(finding.id);
    if (by == by_id.end() || by->second >= sentences.size()) continue;
    finding.known = true;
    finding.facts.emplace(finding.facts.begin(), "known", sentences[by->second]);
  }
}

}  // namespace

bool was_checked(std::string_view outcome) {
  constexpr std::string_view kUnchecked[] = {
      "below_noise_floor", "unreadable",   "skipped_by_rule", "routing_flip", "after_routing_flip",
      "not_judged",        "not_recorded", "below_bound",     "given"};
  return std::find(std::begin(kUnchecked), std::end(kUnchecked), outcome) == std::end(kUnchecked);
}

bool is_right(std::string_view outcome) {
  return outcome == "match" || outcome == "holds" || outcome == "zero_within_rounding";
}

bool is_bad(std::string_view outcome) {
  return std::any_of(judge::kAllOutcomes.begin(), judge::kAllOutcomes.end(),
                     [outcome](judge::Outcome one) {
                       return judge::outcome_name(one) == outcome && judge::is_bad(one);
                     });
}

std::string verdict_in_words(const PageAnswer& answer) {
  const std::string verdict = capitals(answer.verdict);
  if (answer.but_for_known == 0) return verdict;
  return base::concat(verdict, " but for ", answer.but_for_known, " known");
}

PageAnswer read_page_answer(const base::JsonCursor& root) {
  const base::JsonCursor schema = root.require("schema");
  for (const Reader& reader : kReaders) {
    if (schema.as_text() != reader.schema) continue;
    PageAnswer answer;
    answer.verdict = root.require("verdict").as_string();
    answer.headline = root.require("headline").as_string();
    answer.exit_code = root.require("exit_code").as_count();
    if (const auto known = root.find("but_for_known")) answer.but_for_known = known->as_count();
    answer.has_all_tensors = text_at(root, "detail") != "findings";
    const bool is_of_reports = schema.as_text() == kDiffSchema || schema.as_text() == kTrendSchema;
    if (!is_of_reports) add_made_by(root, answer);
    reader.read(root, answer);
    add_known_differences(root, answer);
    return answer;
  }
  throw schema.error(
      "\"", base::printable(schema.as_text()), "\" is not \"", kReportSchema, "\", \"",
      kAuditSchema, "\" or \"", kLocalizeSchema,
      "\"; make it with --json of `ttrace compare`, audit or localize of this version");
}

}  // namespace ttrace::report
