#include "report/junit.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "answer/outcomes.h"
#include "base/display_limits.h"
#include "base/text.h"
#include "report/page/markup.h"
#include "report/page/page_answer.h"
#include "report/page/read_parts.h"

namespace ttrace::report {
namespace {

using base::concat;

// Those that say nothing is there to compare with.
constexpr std::array<std::string_view, 2> kErrors{"unreadable", "incomparable"};
// An outcome of audits. A given tensor is computed from nothing, so it is no test case.
constexpr std::string_view kGiven = "given";

template <std::size_t count>
bool has(const std::array<std::string_view, count>& words, std::string_view word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

// A case, and what its element inside is: "failure", "error", "skipped", or nothing where it
// passed.
struct Case {
  std::string group;
  std::string name;
  std::string_view result = {};
  std::string type = {};
  std::string message = {};
  std::vector<std::string> lines = {};
};

std::string line_of(const PageTensor& tensor) {
  std::string text = concat(words(tensor.outcome), "  ", tensor.kind, " ", tensor.name);
  if (tensor.microbatch) text += concat(" of micro-batch ", *tensor.microbatch);
  if (tensor.error && tensor.allowed) {
    text += concat(": error ", base::short_number(*tensor.error), ", allowed ",
                   base::short_number(*tensor.allowed));
  }
  if (!tensor.reason.empty()) text += concat(" (", tensor.reason, ")");
  return text;
}

std::string_view result_of(const PageTensor& tensor) {
  if (tensor.known) return "skipped";
  if (has(kErrors, tensor.outcome)) return "error";
  if (tensor.alarming) return "failure";
  return answer::is_right(tensor.outcome) ? "" : "skipped";
}

// How much a result counts of those of one module: a failure most, "skipped" least.
int weight_of(std::string_view result) {
  if (result == "failure") return 3;
  if (result == "error") return 2;
  return result.empty() ? 1 : 0;
}

Case case_of_module(const PageAnswer& answer, std::uint64_t step, const std::string& module,
                    const std::vector<const PageTensor*>& tensors) {
  Case found{concat("ttrace.", answer.command, ".step_", step), module};
  found.result = "skipped";
  for (const PageTensor* tensor : tensors) {
    const std::string_view result = result_of(*tensor);
    if (weight_of(result) > weight_of(found.result)) found.result = result;
  }
  if (found.result.empty()) return found;
  std::uint64_t count = 0;
  for (const PageTensor* tensor : tensors) {
    if (result_of(*tensor) != found.result) continue;
    if (count++ == 0) found.type = tensor->outcome;
    if (found.lines.size() < base::kShown.junit_lines) found.lines.push_back(line_of(*tensor));
  }
  if (count > base::kShown.junit_lines)
    found.lines.push_back(concat("and ", count - base::kShown.junit_lines, " more"));
  found.message = count == 1 ? found.lines.front()
                             : concat(base::plural(count, "tensor"),
                                      ", the first of them: ", found.lines.front());
  return found;
}

Case case_of_verdict(const PageAnswer& answer) {
  Case verdict{concat("ttrace.", answer.command), "verdict"};
  const bool fine = answer.verdict == "match" || answer.verdict == "holds" ||
                    answer.verdict == "nothing to explain" || answer.verdict == "nothing new" ||
                    answer.verdict == "trend";
  const bool good = fine && answer.exit_code == 0;  // a known difference may have expired
  const bool undecided = answer.verdict == "inconclusive" || (fine && answer.exit_code == 3);
  if (!good) verdict.result = undecided ? "error" : "failure";
  verdict.type = answer.verdict;
  verdict.message = answer.headline;
  for (const PageFinding& finding : answer.findings) {
    if (verdict.lines.size() < base::kShown.junit_lines) verdict.lines.push_back(finding.title);
  }
  for (const std::string& remark : answer.remarks) {
    if (verdict.lines.size() < 2 * base::kShown.junit_lines) verdict.lines.push_back(remark);
  }
  verdict.lines.push_back(answer.repeat);
  return verdict;
}

std::vector<Case> cases_of(const PageAnswer& answer) {
  std::vector<Case> cases{case_of_verdict(answer)};
  std::map<std::pair<std::uint64_t, std::string>, std::vector<const PageTensor*>> modules;
  for (const PageTensor& tensor : answer.tensors) {
    if (tensor.outcome == kGiven) continue;
    const std::string& name = tensor.module.empty() ? tensor.kind : tensor.module;
    modules[{tensor.step, name}].push_back(&tensor);
  }
  for (const auto& [place, tensors] : modules) {
    cases.push_back(case_of_module(answer, place.first, place.second, tensors));
  }
  if (!answer.tensors.empty()) return cases;
  // An explanation has findings alone.
  for (const PageFinding& finding : answer.findings) {
    cases.push_back({concat("ttrace.", answer.command), finding.title,
                     finding.known ? "skipped" : "failure", finding.outcome,
                     finding.place.empty() ? finding.title : finding.place});
  }
  return cases;
}

std::string counted(const std::vector<Case>& cases, std::string_view result) {
  return concat(std::count_if(cases.begin(), cases.end(),
                              [&](const Case& one) { return one.result == result; }));
}

}  // namespace

std::string junit(const PageAnswer& answer) {
  const std::vector<Case> cases = cases_of(answer);
  const Markup::Attributes totals{{"tests", concat(cases.size())},
                                  {"failures", counted(cases, "failure")},
                                  {"errors", counted(cases, "error")}};
  Markup::Attributes suite{{"name", concat("ttrace ", answer.command)}};
  suite.insert(suite.end(), totals.begin(), totals.end());
  suite.emplace_back("skipped", counted(cases, "skipped"));
  Markup out;
  out.open("testsuites", totals).open("testsuite", suite);
  for (const Case& one : cases) {
    out.open("testcase", {{"name", one.name}, {"classname", one.group}});
    if (!one.result.empty()) {
      out.open(one.result, {{"message", one.message}, {"type", one.type}});
      for (const std::string& line : one.lines) out.text(line).end_line();
      out.close(one.result);
    }
    out.close("testcase");
  }
  out.close("testsuite").close("testsuites");
  return concat("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n", out.html(), "\n");
}

}  // namespace ttrace::report
