#include "report/explain_text.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "answer/counted_findings.h"
#include "base/error.h"
#include "base/text.h"
#include "report/cause_words.h"
#include "report/look_at.h"
#include "report/page/page_answer.h"
#include "report/terminal_text.h"

namespace ttrace::report {
namespace {

using answer::Answer;
using answer::AnsweredFinding;
using base::concat;
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

std::string describe_place_of(const AnsweredFinding& finding) {
  std::string text = place_in_words(finding);
  if (!finding.source) return text;
  const auto& [name, called] = *finding.source;
  if (!name.empty()) text += concat(text.empty() ? "" : ", ", name);
  if (!called.empty()) text += concat(text.empty() ? "" : ", ", "called in ", called);
  return text;
}

std::string describe_numbers(const Answer& answer, const std::string& id) {
  if (!answer.results) return "";
  for (const answer::AnsweredTensor& tensor : *answer.results) {
    if (tensor.id != id) continue;
    if (!tensor.numbers) return "";
    std::string text = concat("error ", base::short_number(tensor.numbers->error), ", allowed ",
                              base::short_number(tensor.numbers->allowed));
    if (const auto multiplier = tensor.numbers->passing_multiplier) {
      text += concat(", would pass at m = ", base::short_number(*multiplier));
    }
    return text;
  }
  return "";
}

std::string describe_refused(const AnsweredFinding& finding) {
  std::string text;
  if (!finding.rejected) return text;
  for (const answer::RejectedCause& one : *finding.rejected) {
    text += concat(text.empty() ? "" : "; ", one.name, " leaves ",
                   base::short_number(one.unexplained), " of the norm unexplained");
  }
  return text;
}

std::string next_command(const Answer& answer, const AnsweredFinding& finding,
                         const std::string& file) {
  if (!finding.next.empty()) return finding.next;
  if (answer.reference && answer.candidate) {
    return concat("ttrace localize ", answer.reference->path, " ", answer.candidate->path,
                  file.empty() ? "" : " --report ", file, " --specification SPEC.json");
  }
  return concat("ttrace inspect ", answer.run ? answer.run->path : "", " '", finding.module, "*'");
}

void explain(const Answer& answer, const answer::CountedFinding& counted, std::size_t number,
             const std::string& file, const TextStyle& style, std::ostream& out) {
  const AnsweredFinding& finding = *counted.finding;
  Explanation explanation(style, out);
  const std::string& own = finding.headline;
  explanation.title(concat(number, "  ", own.empty() ? counted.heading() : own));
  bool first = true;
  if (finding.causes) {
    for (const answer::Cause& cause : *finding.causes) {
      explanation.line(
          first ? "evidence" : "or",
          concat(cause.name, cause.axis.empty() ? "" : " over ", cause.axis, ": ", cause.evidence));
      first = false;
    }
    if (first) explanation.line("evidence", "no known cause fits the numbers");
  }
  explanation.line("numbers", describe_numbers(answer, finding.id));
  explanation.line("error in", finding.where);
  explanation.line("place", describe_place_of(finding));
  explanation.line("local", finding.local);
  if (const auto& setting = finding.setting) {
    explanation.line("setting", concat(setting->name, ": reference ", setting->reference,
                                       ", candidate ", setting->candidate));
  }
  explanation.line("refused", describe_refused(finding));
  if (!first) add_cause(finding.causes->front().name, explanation);
  if (!finding.record_next.empty()) {
    explanation.line("record", concat(finding.record_next, " on both runs"));
  }
  explanation.line("next", next_command(answer, finding, file));
}

}  // namespace

void explain_finding(std::size_t number, const Answer& answer, const std::string& file,
                     const TextStyle& style, std::ostream& out) {
  const std::vector<answer::CountedFinding> findings = counted_findings(answer);
  if (number == 0 || number > findings.size()) {
    throw base::usage_error(file, ": has no finding ", number, "; it has ",
                            base::plural(findings.size(), "finding"));
  }
  explain(answer, findings[number - 1], number, file, style, out);
}

void explain_answer(std::size_t number, const Answer& answer, const std::string& file,
                    const TextStyle& style, std::ostream& out) {
  const std::vector<answer::CountedFinding> findings = counted_findings(answer);
  if (number > 0 && number <= findings.size()) {
    return explain(answer, findings[number - 1], number, file, style, out);
  }
  out << (findings.empty()
              ? "nothing to explain"
              : concat("there is no finding ", number, " to explain, only ", findings.size()))
      << "\n";
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
