#include <algorithm>
#include <cstddef>
#include <limits>
#include <map>
#include <optional>
#include <string>

#include "base/display_limits.h"
#include "base/text.h"
#include "report/page/read_parts.h"

namespace ttrace::report {
namespace {

using base::JsonCursor;

// The check that used most of its bound.
void add_share_of_bound(const JsonCursor& result, PageTensor& out) {
  const auto checks = result.find("checks");
  if (!checks) return;
  for (const JsonCursor& check : checks->items()) {
    const auto error = number_at(check, "error");
    const auto bound = number_at(check, "bound");
    if (!error || !bound) continue;
    if (check.require("result").as_text() == "not_replayable") continue;
    const double none = *error == 0 ? 0 : std::numeric_limits<double>::infinity();
    const double used = *bound > 0 ? *error / *bound : none;
    if (out.used && used <= *out.used) continue;
    out.used = used;
    out.error = error;
    out.allowed = bound;
    out.rule = check.require("operation").as_string();
  }
}

PageFinding audit_finding(const JsonCursor& item) {
  PageFinding out = judged_finding(item);
  out.outcome = "broken";
  const std::string ranks = ranks_text(counts_at(item, "ranks"));
  if (!ranks.empty()) out.facts.emplace_back("ranks", ranks);
  out.checks = checks_at(item.require("local"));
  return out;
}

}  // namespace

void read_audit(const JsonCursor& root, PageAnswer& answer) {
  answer.command = "audit";
  answer.counted_as = "tensors";
  add_run(root, "run", answer);
  add_mesh(root.require("run"), answer);
  answer.repeat = "ttrace audit " + shell_word(root.require("run").require("path").as_string());
  add_flags_of_specification(root, answer);
  const std::string why = text_at(root, "why");
  if (!why.empty()) answer.remarks.push_back(why);
  const JsonCursor coverage = root.require("coverage");
  for (const auto& [reason, tensors] : coverage.require("not_judged").members()) {
    answer.remarks.push_back(base::concat(tensors.as_count(), " not judged: ", reason));
  }
  if (const auto lacking = coverage.find("lacking")) {
    for (const auto& [kind, tensors] : lacking->members()) {
      answer.remarks.push_back(base::concat(tensors.as_count(), " of kind ", kind,
                                            " that the step computes and the trace lacks"));
    }
  }
  add_warnings(root, answer);
  for (const JsonCursor& item : root.require("findings").items()) {
    answer.findings.push_back(audit_finding(item));
  }
  std::map<std::string, std::uint64_t> counts;
  for (const JsonCursor& item : root.require("results").items()) {
    PageTensor tensor = tensor_from(item);
    add_share_of_bound(item, tensor);
    tensor.alarming = tensor.outcome == "broken" && !tensor.known;
    ++counts[tensor.outcome];
    answer.tensors.push_back(std::move(tensor));
  }
  answer.counts.assign(counts.begin(), counts.end());
}

}  // namespace ttrace::report
