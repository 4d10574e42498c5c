#include "report/page/shown_text.h"

#include <cstddef>
#include <map>
#include <optional>
#include <string>

#include "base/display_limits.h"
#include "base/text.h"
#include "report/page/page.h"
#include "report/page/page_answer.h"
#include "report/page/read_parts.h"

namespace ttrace::report {
namespace {

std::string one_number(const std::optional<double>& value) {
  return value ? base::short_number(*value) : "-";
}

void add_line(std::string& text, std::string_view label, std::string_view value) {
  if (value.empty()) return;
  constexpr std::size_t kColumn = 14;
  text += base::concat("     ", label,
                       std::string(label.size() < kColumn ? kColumn - label.size() : 1, ' '),
                       base::printable(value), "\n");
}

void add_finding(const PageFinding& finding, std::size_t number, const PageTensor* tensor,
                 std::string& text) {
  text += base::concat("\n  ", number, "  ", base::printable(finding.title), "   ",
                       words(finding.outcome), "\n");
  add_line(
      text, "place",
      finding.place + (finding.place.empty() || finding.code.empty() ? "" : ", ") + finding.code);
  if (tensor != nullptr && tensor->used) {
    add_line(text, "used",
             base::concat(one_number(tensor->used), " of what is allowed: error ",
                          one_number(tensor->error), ", allowed ", one_number(tensor->allowed)));
  }
  for (const PageCause& cause : finding.causes)
    add_line(text, "cause", cause.name + ": " + cause.evidence);
  for (const auto& [label, value] : finding.facts) add_line(text, label, value);
}

}  // namespace

std::string shown_line(const PageAnswer& answer) {
  return base::concat(verdict_in_words(answer), "  ", base::printable(answer.headline), "\n");
}

std::string shown_text(const PageAnswer& answer) {
  std::string text = shown_line(answer);
  std::string counts;
  for (const auto& [outcome, count] : answer.counts) {
    counts += base::concat(counts.empty() ? "" : ", ", count, " ", words(outcome));
  }
  add_line(text, answer.counted_as, counts);
  if (!answer.has_all_tensors)
    add_line(text, "detail", "the report has the numbers of findings alone");
  for (std::size_t i = 0; i < answer.remarks.size() && i < base::kShown.notes; ++i) {
    add_line(text, "note", answer.remarks[i]);
  }
  std::map<std::string, const PageTensor*> by_id;
  for (const PageTensor& tensor : answer.tensors) by_id.emplace(tensor.id, &tensor);
  for (std::size_t i = 0; i < answer.findings.size() && i < base::kShown.findings; ++i) {
    const auto found = by_id.find(answer.findings[i].id);
    add_finding(answer.findings[i], i + 1, found == by_id.end() ? nullptr : found->second, text);
  }
  if (answer.findings.size() > base::kShown.findings) {
    text += base::concat("\n  and ", answer.findings.size() - base::kShown.findings,
                         " more findings: --format html, or the JSON itself\n");
  }
  text += "\n";
  for (const PageRun& run : answer.runs) add_line(text, run.role, run.facts.front().second);
  add_line(text, "again", answer.repeat);
  return text;
}

}  // namespace ttrace::report
