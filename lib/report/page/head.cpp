#include <cstddef>

#include "base/display_limits.h"
#include "base/text.h"
#include "report/page/read_parts.h"
#include "report/page/sections.h"

namespace ttrace::report {
namespace {

// What colour a verdict has: "good", "bad" or "unsure".
const char* class_of(const std::string& verdict) {
  if (verdict == "match" || verdict == "holds" || verdict == "nothing to explain") return "good";
  return verdict == "inconclusive" ? "unsure" : "bad";
}

}  // namespace

Markup page_head(const PageAnswer& answer) {
  Markup out;
  out.open("p", {{"class", std::string("verdict ") + class_of(answer.verdict)}});
  out.element("strong", verdict_in_words(answer)).close("p");
  out.element("h1", answer.headline);
  if (!answer.counts.empty()) {
    out.open("ul", {{"class", "counts"}, {"aria-label", answer.counted_as + " by outcome"}});
    for (const auto& [outcome, count] : answer.counts) {
      out.open("li", {{"data-outcome", outcome}});
      out.element("b", base::concat(count)).text(" " + words(outcome)).close("li");
    }
    out.close("ul");
  }
  if (!answer.has_all_tensors) {
    out.element("p",
                "The report holds the tensors of findings alone (--json-detail findings): what is "
                "drawn and listed here are these.",
                {{"class", "remark"}});
  }
  if (answer.remarks.empty()) return out;
  out.open("section", {{"class", "remarks"}, {"aria-label", "what to know"}});
  out.element("h2", "What to know").open("ul");
  for (std::size_t i = 0; i < answer.remarks.size() && i < base::kShown.page_remarks; ++i) {
    out.element("li", answer.remarks[i]);
  }
  if (answer.remarks.size() > base::kShown.page_remarks) {
    out.element("li", base::concat("and ", answer.remarks.size() - base::kShown.page_remarks,
                                   " more in the report (--json)"));
  }
  return out.close("ul").close("section");
}

Markup page_runs(const PageAnswer& answer) {
  Markup out;
  out.open("details").open("summary");
  for (const PageRun& run : answer.runs) {
    out.element("span", run.role, {{"class", "dim"}}).text(" ");
    out.element("code", run.facts.front().second).text("  ");
  }
  out.close("summary").open("div", {{"class", "runs"}});
  for (const PageRun& run : answer.runs) {
    out.open("section").element("h2", run.role).open("dl");
    for (const auto& [label, value] : run.facts) out.element("dt", label).element("dd", value);
    out.close("dl").close("section");
  }
  out.open("section").element("h2", "again").open("dl");
  out.element("dt", "command").open("dd").element("code", answer.repeat).close("dd");
  for (const auto& [label, value] : answer.made_by) {
    if (!value.empty() && value != " ") out.element("dt", label).element("dd", value);
  }
  return out.close("dl").close("section").close("div").close("details");
}

}  // namespace ttrace::report
