#include <map>
#include <string>

#include "base/display_limits.h"
#include "base/text.h"
#include "report/page/read_parts.h"

namespace ttrace::report {
namespace {

using base::JsonCursor;

PageFinding localized_finding(const JsonCursor& item) {
  PageFinding out = judged_finding(item);
  out.outcome = item.require("outcome").as_string();
  const auto add = [&out](const char* label, const std::string& value) {
    if (!value.empty()) out.facts.emplace_back(label, value);
  };
  const JsonCursor local = item.require("local");
  const std::string module = text_at(item, "module");
  const auto place = item.find("place");
  const bool in_module = !place || place->is_null() || place->require("kind").as_text() == "module";
  if (in_module && item.require("here").as_bool()) {
    add("here", "the bug is inside " + (module.empty() ? "this module" : module));
  }
  add("local", text_at(local, "summary"));
  add("where", text_at(item, "where"));
  add("ranks", ranks_text(counts_at(item, "ranks")));
  add("upstream", text_at(item, "upstream"));
  if (const auto downstream = number_at(item, "downstream"); downstream && *downstream > 0) {
    add("downstream", base::plural(static_cast<std::uint64_t>(*downstream), "tensor"));
  }
  add("next", text_at(item, "next"));
  out.checks = checks_at(local);
  return out;
}

}  // namespace

void read_localize(const JsonCursor& root, PageAnswer& answer) {
  answer.command = "localize";
  answer.counted_as = "findings";
  add_run(root, "reference", answer);
  add_run(root, "candidate", answer);
  answer.repeat = base::concat("ttrace localize ", judged_pair_flags(root));
  add_flags_of_specification(root, answer);
  const std::string why = text_at(root.require("comparison"), "why");
  if (!why.empty()) answer.remarks.push_back(why);
  add_warnings(root, answer);
  std::map<std::string, std::uint64_t> counts;
  for (const JsonCursor& item : root.require("findings").items()) {
    ++counts[item.require("outcome").as_string()];
    answer.findings.push_back(localized_finding(item));
  }
  answer.counts.assign(counts.begin(), counts.end());
}

}  // namespace ttrace::report
