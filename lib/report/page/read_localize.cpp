#include <map>
#include <string>

#include "base/text.h"
#include "report/page/read_parts.h"

namespace ttrace::report {
namespace {

using base::JsonCursor;

PageFinding localized_finding(const JsonCursor& item) {
  PageFinding out;
  out.id = item.require("id").as_string();
  out.title = heading_of(item);
  out.outcome = item.require("outcome").as_string();
  out.members = item.require("keys").as_strings();
  out.phase = text_at(item, "phase");
  add_place(item, out);
  const std::string called_at = text_at(item, "called_at");
  out.code = text_at(item, "class");
  if (!called_at.empty()) out.code += (out.code.empty() ? "" : ", ") + called_at;
  const auto add = [&out](const char* label, const std::string& value) {
    if (!value.empty()) out.facts.emplace_back(label, value);
  };
  const JsonCursor local = item.require("local");
  const std::string module = text_at(item, "module");
  if (item.require("here").as_bool()) {
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
  out.causes = causes_at(item, "causes");
  out.rejected = causes_at(item, "rejected");
  return out;
}

}  // namespace

void read_localize(const JsonCursor& root, PageAnswer& answer) {
  answer.command = "localize";
  answer.counted_as = "findings";
  add_run(root, "reference", answer);
  add_run(root, "candidate", answer);
  const std::string reference = root.require("reference").require("path").as_string();
  const std::string candidate = root.require("candidate").require("path").as_string();
  answer.repeat =
      base::concat("ttrace localize ", shell_word(reference), " ", shell_word(candidate));
  const std::string specification = text_at(root, "specification");
  if (!specification.empty()) answer.repeat += " --specification " + shell_word(specification);
  answer.repeat += selection_flags(root);
  const std::string why = text_at(root.require("comparison"), "why");
  if (!why.empty()) answer.remarks.push_back(why);
  const std::vector<std::string> warnings = root.require("warnings").as_strings();
  answer.remarks.insert(answer.remarks.end(), warnings.begin(), warnings.end());
  std::map<std::string, std::uint64_t> counts;
  for (const JsonCursor& item : root.require("findings").items()) {
    ++answer.findings_total;
    ++counts[item.require("outcome").as_string()];
    if (answer.findings.size() < kMostCards) answer.findings.push_back(localized_finding(item));
  }
  answer.counts.assign(counts.begin(), counts.end());
  if (!answer.headline.empty()) return;
  answer.headline = answer.findings.empty()
                        ? "nothing to explain"
                        : base::concat("first at ", answer.findings.front().title, ", of ",
                                       base::plural(answer.findings_total, "finding"));
}

}  // namespace ttrace::report
