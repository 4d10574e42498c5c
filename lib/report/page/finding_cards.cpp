#include <cstddef>
#include <map>
#include <optional>
#include <string>

#include "base/display_limits.h"
#include "base/text.h"
#include "report/page/read_parts.h"
#include "report/page/sections.h"

namespace ttrace::report {
namespace {

std::string shown(const std::optional<double>& value) {
  return value ? base::short_number(*value) : "–";
}

void add_number(Markup& out, const char* label, const std::string& value) {
  out.open("div").element("dt", label).element("dd", value).close("div");
}

// What the card knows of its tensor.
void add_three_numbers(const PageTensor& tensor, Markup& out) {
  if (!tensor.used) return;
  out.open("dl", {{"class", "numbers"}});
  add_number(out, "error over allowed", shown(tensor.used));
  add_number(
      out, "error",
      shown(tensor.error) + (tensor.eps ? " = " + base::short_number(*tensor.eps) + " ε" : ""));
  add_number(out, "allowed", shown(tensor.allowed));
  out.close("dl");
}

void add_path(const PageFinding& finding, const PageTensor* tensor, Markup& out) {
  if (finding.place.empty() && finding.code.empty()) return;
  out.open("p", {{"class", "place"}});
  for (const std::string& module : finding.path) out.element("span", module).text(" → ");
  out.element("strong", finding.place.empty() ? finding.code : finding.place);
  if (tensor != nullptr && tensor->module != finding.place && !tensor->module.empty()) {
    out.text(" → ").element("span", tensor->module);
  }
  if (!finding.place.empty() && !finding.code.empty()) {
    out.text(" ").element("code", finding.code);
  }
  out.close("p");
}

void add_causes(const PageFinding& finding, Markup& out) {
  if (finding.causes.empty() && finding.rejected.empty()) return;
  out.open("ul", {{"class", "causes"}});
  for (const PageCause& cause : finding.causes) {
    out.open("li").element("strong", cause.name).text(" " + cause.evidence);
    if (cause.evidence.empty() && cause.unexplained)
      out.text(" (leaves " + shown(cause.unexplained) + ")");
    std::string values;
    for (const auto& [name, value] : cause.values) {
      values += base::concat(values.empty() ? "" : " · ", name, " ", value);
    }
    if (!values.empty()) out.text(" ").element("span", values, {{"class", "dim values"}});
    out.close("li");
  }
  if (!finding.rejected.empty()) {
    std::string others;
    for (const PageCause& one : finding.rejected) {
      others += base::concat(others.empty() ? "" : ", ", one.name, " (leaves ",
                             shown(one.unexplained), ")");
    }
    out.element("li", "does not fit: " + others, {{"class", "dim"}});
  }
  out.close("ul");
}

void add_checks(const PageFinding& finding, Markup& out) {
  if (finding.checks.empty()) return;
  out.open("table", {{"class", "checks"}}).open("thead").open("tr");
  for (const char* head : {"check", "result", "error", "bound", "expected, or why not"}) {
    out.element("th", head, {{"scope", "col"}});
  }
  out.close("tr").close("thead").open("tbody");
  for (const PageCheck& check : finding.checks) {
    out.open("tr").element("td", check.operation);
    out.element("td", check.result, {{"class", check.result == "inconsistent" ? "alarm" : "calm"}});
    out.element("td", shown(check.error)).element("td", shown(check.bound));
    out.element("td", check.expected.empty() ? check.reason : check.expected).close("tr");
  }
  out.close("tbody").close("table");
}

void add_links(const char* label, const std::vector<std::string>& ids, std::size_t most,
               Markup& out) {
  if (ids.empty()) return;
  const std::string title = base::concat(label, " ", base::plural(ids.size(), "tensor"));
  out.open("details").element("summary", title).open("ul");
  for (std::size_t i = 0; i < ids.size() && i < most; ++i) {
    out.open("li").add(tensor_link(ids[i])).close("li");
  }
  if (ids.size() > most) out.element("li", base::concat("and ", ids.size() - most, " more"));
  out.close("ul").close("details");
}

void add_replicas(const PageFinding& finding, Markup& out) {
  if (finding.replica_classes.empty()) return;
  std::string classes;
  for (const auto& ranks : finding.replica_classes) {
    classes += (classes.empty() ? "{" : " | {") + base::numbers_in_words(ranks) + "}";
  }
  out.element("dt", "ranks that agree").element("dd", classes);
}

}  // namespace

Markup tensor_link(const std::string& id) {
  Markup out;
  const bool is_tensor = !id.starts_with("group:") && !id.starts_with("setting:");
  if (!is_tensor) return out.text(id);
  return out.element("a", id, {{"href", "#t=" + fragment_text(base::printable(id))}});
}

Markup page_findings(const PageAnswer& answer) {
  Markup out;
  if (answer.findings.empty()) return out;
  std::map<std::string, const PageTensor*> by_id;
  for (const PageTensor& tensor : answer.tensors) by_id.emplace(tensor.id, &tensor);
  out.open("section",
           {{"id", "findings"}, {"class", "findings"}, {"aria-labelledby", "h-findings"}});
  out.element("h2", base::plural(answer.findings.size(), "finding"), {{"id", "h-findings"}});
  std::size_t number = 0;
  for (const PageFinding& finding : answer.findings) {
    if (number == base::kShown.page_cards) break;
    const std::string anchor = base::concat("finding-", ++number);
    const auto found = by_id.find(finding.id);
    const PageTensor* tensor = found == by_id.end() ? nullptr : found->second;
    out.open("article", {{"id", anchor}, {"tabindex", "-1"}});
    out.open("h3").element("a", base::concat(number), {{"href", "#" + anchor}});
    out.text(" " + finding.title).close("h3");
    out.element(
        "p", words(finding.outcome) + (finding.phase.empty() ? "" : " · " + words(finding.phase)),
        {{"class", "dim"}});
    add_path(finding, tensor, out);
    if (tensor != nullptr) add_three_numbers(*tensor, out);
    add_causes(finding, out);
    out.add(shard_grid(finding));
    out.open("dl", {{"class", "facts"}});
    for (const auto& [label, value] : finding.facts) out.element("dt", label).element("dd", value);
    add_replicas(finding, out);
    if (tensor != nullptr) {
      out.element("dt", "tensor").open("dd").add(tensor_link(tensor->id));
      out.text(" " + tensor->shape + " " + tensor->dtype).close("dd");
    }
    out.close("dl");
    add_checks(finding, out);
    if (finding.members.size() > 1)
      add_links("all", finding.members, base::kShown.page_members, out);
    add_links("computed from", finding.depends_on, base::kShown.page_before, out);
    out.close("article");
  }
  if (answer.findings.size() > base::kShown.page_cards) {
    out.element("p", base::concat("and ", answer.findings.size() - base::kShown.page_cards,
                                  " more findings: their tensors are in the table, and --json has "
                                  "them in full"));
  }
  return out.close("section");
}

}  // namespace ttrace::report
