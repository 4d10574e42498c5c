#include "report/explain_text.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "base/error.h"
#include "base/strict_json.h"
#include "base/text.h"
#include "report/audit_report.h"
#include "report/cause_words.h"
#include "report/json/compare_report_json.h"
#include "report/json/read_findings.h"
#include "report/localize_report.h"
#include "report/look_at.h"
#include "report/page/read_parts.h"
#include "report/terminal_text.h"

namespace ttrace::report {
namespace {

using base::concat;
using base::JsonCursor;
using base::printable;

constexpr std::size_t kLabelOfExplanation = 12;  // the column at which the text of a line begins

class Explanation {
 public:
  Explanation(const TextStyle& style, std::ostream& out) : style_(style), out_(out) {}

  void title(const std::string& text) { out_ << folded(printable(text), style_.width) << "\n"; }
  void line(const std::string& label, const std::string& text) {
    if (text.empty()) return;
    std::string padded = concat("  ", label);
    padded.resize(std::max(padded.size() + 1, kLabelOfExplanation), ' ');
    out_ << padded << wrapped(printable(text), style_.width, padded.size()) << "\n";
  }

 private:
  const TextStyle& style_;
  std::ostream& out_;
};

std::string text_or_empty(const JsonCursor& object, std::string_view name) {
  const auto value = object.find(name);
  return value && value->is_string() ? value->as_string() : "";
}

// What a cause means, whose bugs it was, and what to record.
void add_cause(std::string_view cause, Explanation& explanation) {
  const auto& all = cause_words();
  const auto known = std::find_if(all.begin(), all.end(),
                                  [&](const CauseWords& one) { return one.cause == cause; });
  if (known == all.end()) return;
  explanation.line("means", std::string(known->meaning));
  for (const LookAt& line : look_at_lines()) {
    if (line.cause == cause) explanation.line("reason", advice_of(line));
  }
  explanation.line("record", std::string(known->record));
}

std::string axis_of(const JsonCursor& cause) {
  const auto axis = cause.find("axis");
  return axis && axis->is_string() ? concat(" over ", axis->as_string()) : "";
}

std::string describe_place_of(const JsonCursor& item) {
  std::string text = place_at(item);
  const auto source = item.find("source");
  const JsonCursor& code = source ? *source : item;
  const std::string name = text_or_empty(code, "class");
  const std::string called = text_or_empty(code, "called_at");
  if (!name.empty()) text += concat(text.empty() ? "" : ", ", name);
  if (!called.empty()) text += concat(text.empty() ? "" : ", ", "called in ", called);
  return text;
}

void add_numbers(const JsonCursor& root, const JsonCursor& item, Explanation& explanation) {
  const auto results = root.find("results");
  if (!results) return;
  const std::string id = item.require("id").as_string();
  for (const JsonCursor& result : results->items()) {
    if (result.require("id").as_string() != id) continue;
    std::string text;
    for (const char* name : {"error", "allowed", "passing_multiplier"}) {
      const auto value = result.find(name);
      if (!value || value->is_null()) continue;
      const std::string number =
          value->is_string() ? value->as_string() : base::short_number(value->as_number());
      text += concat(
          text.empty() ? "" : ", ",
          std::string_view(name) == "passing_multiplier" ? "would pass at m = " : concat(name, " "),
          number);
    }
    explanation.line("numbers", text);
    return;
  }
}

std::string describe_refused(const JsonCursor& item) {
  const auto rejected = item.find("rejected");
  if (!rejected) return "";
  std::string text;
  for (const JsonCursor& one : rejected->items()) {
    const JsonCursor left = one.require("unexplained");
    text += concat(text.empty() ? "" : "; ", one.require("name").as_string(), " leaves ",
                   left.is_string() ? left.as_string() : base::short_number(left.as_number()),
                   " of the norm unexplained");
  }
  return text;
}

std::string path_of(const JsonCursor& root, std::string_view run) {
  const auto facts = root.find(run);
  return facts && facts->is_object() ? text_or_empty(*facts, "path") : "";
}

std::string next_command(const JsonCursor& root, const JsonCursor& item, const std::string& file) {
  if (const std::string next = text_or_empty(item, "next"); !next.empty()) return next;
  const std::string reference = path_of(root, "reference");
  if (!reference.empty()) {
    return concat("ttrace localize ", reference, " ", path_of(root, "candidate"),
                  file.empty() ? "" : " --report ", file, " --specification SPEC.json");
  }
  return concat("ttrace inspect ", path_of(root, "run"), " '", text_or_empty(item, "module"), "*'");
}

// Explains finding `number`. Where there is none, calls `beyond` with how many findings there are.
template <typename Beyond>
void explain(std::size_t number, std::string_view report, const std::string& file,
             const TextStyle& style, std::ostream& out, Beyond beyond) {
  const base::JsonDocument document(report, file);
  const JsonCursor root = document.root();
  const JsonCursor schema = root.require("schema");
  const std::string_view name = schema.as_text();
  if (name != kReportSchema && name != kLocalizeSchema && name != kAuditSchema) {
    throw schema.error("\"", printable(name), "\" is no report of compare, localize or audit");
  }
  const std::vector<ReadFinding> findings = read_findings(root);
  if (number == 0 || number > findings.size()) return beyond(findings.size());
  const JsonCursor& item = findings[number - 1].item;
  const JsonCursor& told = findings[number - 1].group ? *findings[number - 1].group : item;
  Explanation explanation(style, out);
  explanation.title(concat(number, "  ", told.require("headline").as_text()));
  std::vector<std::string> causes;
  if (const auto found = item.find("causes")) {
    for (const JsonCursor& cause : found->items()) {
      causes.push_back(cause.require("name").as_string());
      explanation.line(
          causes.size() == 1 ? "evidence" : "or",
          concat(causes.back(), axis_of(cause), ": ", cause.require("evidence").as_string()));
    }
    if (causes.empty()) explanation.line("evidence", "no known cause fits the numbers");
  }
  add_numbers(root, item, explanation);
  explanation.line("error in", text_or_empty(item, "where"));
  explanation.line("place", describe_place_of(item));
  if (const auto local = item.find("local"); local && local->is_object()) {
    explanation.line("local", text_or_empty(*local, "summary"));
  }
  if (const auto setting = item.find("setting")) {
    explanation.line("setting", concat(text_or_empty(*setting, "name"), ": reference ",
                                       text_or_empty(*setting, "reference"), ", candidate ",
                                       text_or_empty(*setting, "candidate")));
  }
  explanation.line("refused", describe_refused(item));
  for (const std::string& cause : causes) {
    add_cause(cause, explanation);
    break;
  }
  const std::string record = text_or_empty(item, "record_next");
  if (!record.empty()) explanation.line("record", concat(record, " on both runs"));
  explanation.line("next", next_command(root, item, file));
}

}  // namespace

void explain_finding(std::size_t number, std::string_view report, const std::string& file,
                     const TextStyle& style, std::ostream& out) {
  explain(number, report, file, style, out, [&](std::size_t findings) {
    throw base::usage_error(file, ": has no finding ", number, "; it has ",
                            base::plural(findings, "finding"));
  });
}

void explain_answer(std::size_t number, std::string_view report, const std::string& file,
                    const TextStyle& style, std::ostream& out) {
  explain(number, report, file, style, out, [&](std::size_t findings) {
    out << (findings == 0 ? "nothing to explain"
                          : concat("there is no finding ", number, " to explain, only ", findings))
        << "\n";
  });
}
void explain_word(const std::string& word, const TextStyle& style, std::ostream& out) {
  Explanation explanation(style, out);
  std::vector<std::string> known;
  for (const CauseWords& one : cause_words()) {
    known.emplace_back(one.cause);
    if (one.cause != word) continue;
    explanation.title(concat(word, ", a cause"));
    return add_cause(word, explanation);
  }
  for (const Word& one : glossary()) {
    known.emplace_back(one.word);
    if (one.word != word && (one.also.empty() || one.also != word)) continue;
    explanation.title(concat(one.word, one.also.empty() ? "" : ", ", one.also));
    return explanation.line("means", std::string(one.meaning));
  }
  throw base::usage_error("\"", printable(word), "\" is no finding, no cause and no word that is ",
                          "explained", base::nearest_hint(word, base::nearest_names(word, known)));
}

}  // namespace ttrace::report
