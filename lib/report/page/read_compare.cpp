#include <algorithm>
#include <cstddef>
#include <map>
#include <set>
#include <utility>

#include "base/display_limits.h"
#include "base/text.h"
#include "report/json/read_findings.h"
#include "report/page/read_parts.h"

namespace ttrace::report {
namespace {

using base::JsonCursor;

PageTensor compared_tensor(const JsonCursor& result) {
  PageTensor out = tensor_from(result);
  out.used = number_at(result, "used");
  out.error = number_at(result, "error");
  out.eps = number_at(result, "error_in_eps");
  out.allowed = number_at(result, "allowed");
  out.alarming = is_bad(out.outcome) && !out.known;
  return out;
}

PageFinding setting_finding(const JsonCursor& item) {
  const JsonCursor setting = item.require("setting");
  const std::string name = setting.require("name").as_string();
  PageFinding out;
  out.id = item.require("id").as_string();
  out.outcome = "setting";
  out.phase = "optimizer";
  out.place = "the optimizer";
  out.title = base::concat(name, " of ",
                           base::plural(item.require("parameters_total").as_count(), "parameter"));
  out.facts = {{"reference", setting.require("reference").as_string()},
               {"candidate", setting.require("candidate").as_string()}};
  out.members = strings_at(item, "updates");
  return out;
}

// "layers.0.attn" of the id "0/1/output/layers.0.attn/0/0".
std::string name_of_id(const std::string& id) {
  std::size_t begin = 0;
  for (int i = 0; i < 3 && begin != std::string::npos; ++i) {
    begin = id.find('/', begin);
    if (begin != std::string::npos) ++begin;
  }
  const std::size_t call = id.rfind('/', id.rfind('/') - 1);
  if (begin == std::string::npos || call == std::string::npos || call < begin) return id;
  return id.substr(begin, call - begin);
}

void add_finding_facts(const JsonCursor& item, PageFinding& out) {
  out.phase = text_at(item, "phase");
  out.place = place_at(item);
  if (const auto source = item.find("source")) {
    const std::string called_at = text_at(*source, "called_at");
    out.code = text_at(*source, "class");
    if (!called_at.empty()) out.code += (out.code.empty() ? "" : ", ") + called_at;
  }
  const auto add = [&out](const char* label, const std::string& value) {
    if (!value.empty()) out.facts.emplace_back(label, value);
  };
  add("where", text_at(item, "where"));
  add("parts", text_at(item, "parts"));
  add("values", text_at(item, "values"));
  add("ranks", ranks_text(counts_at(item, "ranks")));
  add("shards", text_at(item, "merged"));
  add("record next", text_at(item, "record_next"));
  if (const auto total = number_at(item, "downstream_total"); total && *total > 0) {
    add("downstream", base::plural(static_cast<std::uint64_t>(*total), "tensor"));
  }
  out.depends_on = strings_at(item, "depends_on");
  std::set<std::string> before;
  for (const std::string& id : out.depends_on) before.insert(name_of_id(id));
  constexpr std::size_t kLongestPath = 3;
  if (before.size() <= kLongestPath) out.path.assign(before.begin(), before.end());
  if (const auto classes = item.find("replica_classes")) {
    for (const JsonCursor& one : classes->items()) out.replica_classes.push_back(one.as_counts());
  }
  out.causes = causes_at(item, "causes");
  out.rejected = causes_at(item, "rejected");
  out.shards = shards_at(item);
}

// The card of one finding, or of a group by the one that it shows.
PageFinding finding_of(const JsonCursor& item, std::string title,
                       std::vector<std::string> members) {
  PageFinding out;
  out.id = item.require("id").as_string();
  out.outcome = item.require("outcome").as_string();
  for (const char* group : {"missing_group", "extra_group"}) {
    const std::string whole = text_at(item, group);
    if (!whole.empty()) title = base::concat(out.outcome, ": ", whole);
  }
  out.title = title.empty() ? out.id : std::move(title);
  out.members = std::move(members);
  if (out.members.empty()) out.members = strings_at(item, "members");
  add_finding_facts(item, out);
  return out;
}

void add_findings(const JsonCursor& root, PageAnswer& answer) {
  for (const ReadFinding& read : read_findings(root)) {
    if (read.item.find("setting")) {
      answer.findings.push_back(setting_finding(read.item));
    } else if (!read.group) {
      answer.findings.push_back(finding_of(read.item, "", {}));
    } else {
      std::vector<std::string> members = read.group->require("findings").as_strings();
      const auto shown =
          std::find(members.begin(), members.end(), read.group->require("shown").as_string());
      if (shown != members.end()) std::rotate(members.begin(), shown, shown + 1);
      answer.findings.push_back(
          finding_of(read.item, read.group->require("headline").as_string(), std::move(members)));
    }
  }
}

void add_coverage(const JsonCursor& root, PageAnswer& answer) {
  const std::string why = text_at(root, "why");
  if (!why.empty()) answer.remarks.push_back(why);
  for (const JsonCursor& remark : root.require("coverage").require("remarks").items()) {
    answer.remarks.push_back(remark.require("text").as_string());
  }
  for (const char* told : {"microbatches", "other_start"}) {
    if (const auto one = root.find(told)) answer.remarks.push_back(text_at(*one, "text"));
  }
  add_warnings(root, answer);
  for (const auto& [outcome, count] : root.require("counts").members()) {
    if (outcome != "total" && count.as_count() > 0) {
      answer.counts.emplace_back(outcome, count.as_count());
    }
  }
}

}  // namespace

void read_compare(const JsonCursor& root, PageAnswer& answer) {
  answer.command = "compare";
  answer.counted_as = "tensors";
  add_run(root, "reference", answer);
  add_run(root, "candidate", answer);
  add_mesh(root.require("candidate"), answer);
  answer.repeat = base::concat("ttrace compare ", judged_pair_flags(root), selection_flags(root));
  add_coverage(root, answer);
  add_findings(root, answer);
  for (const JsonCursor& item : root.require("results").items()) {
    answer.tensors.push_back(compared_tensor(item));
  }
}

}  // namespace ttrace::report
