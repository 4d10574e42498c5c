#include <string>

#include "base/text.h"
#include "report/page/read_parts.h"

namespace ttrace::report {
namespace {

using base::concat;
using base::JsonCursor;

PageFinding changed_finding(const JsonCursor& item) {
  PageFinding out;
  out.id = item.require("id").as_string();
  out.title = item.require("headline").as_string();
  out.outcome = item.require("status").as_string();
  const std::uint64_t newly = item.require("newly_diverged").as_count();
  out.place = concat(out.outcome, ", ", base::plural(item.require("members").as_count(), "tensor"));
  if (item.find("before") && newly > 0) out.place += concat(", ", newly, " of them new");
  // A finding in which nothing is new is drawn as known.
  out.known = newly == 0 && item.require("diverged_otherwise").as_count() == 0;
  return out;
}

std::string said(const JsonCursor& change, const char* name) {
  const std::string value = text_at(change, name);
  return value.empty() ? "not said" : value;
}

}  // namespace

void read_diff(const JsonCursor& root, PageAnswer& answer) {
  answer.command = "diff";
  answer.counted_as = "tensors";
  answer.findings_are = "what changed";
  answer.repeat = "ttrace report diff";
  for (const char* role : {"older", "newer"}) {
    const JsonCursor night = root.require(role);
    PageRun run{role, {{"path", night.require("file").as_string()}}};
    run.facts.emplace_back("verdict", night.require("verdict").as_string());
    answer.repeat += " " + shell_word(run.facts.front().second);
    answer.runs.push_back(std::move(run));
  }
  for (const auto& [name, count] : root.require("counts").members()) {
    if (count.as_count() > 0) answer.counts.emplace_back(name, count.as_count());
  }
  for (const JsonCursor& item : root.require("findings").items()) {
    answer.findings.push_back(changed_finding(item));
  }
  answer.remarks = root.require("remarks").as_strings();
  for (const JsonCursor& change : root.require("changed").items()) {
    answer.remarks.push_back(concat("changed: ", change.require("what").as_string(), ": ",
                                    said(change, "was"), " → ", said(change, "is")));
  }
}

}  // namespace ttrace::report
