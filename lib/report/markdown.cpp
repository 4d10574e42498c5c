#include "report/markdown.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <optional>

#include "base/display_limits.h"
#include "base/text.h"
#include "report/page/page_answer.h"
#include "report/page/read_parts.h"
#include "report/screen.h"

namespace ttrace::report {
namespace {

using base::concat;

std::string shortened(const std::string& text) {
  return markdown_text(cut_at_word(text, base::kShown.markdown_characters));
}

// A command as code. Nothing in it can end the code: GitHub reads HTML there.
std::string code(const std::string& text) {
  return text.empty() ? "" : concat("<code>", markdown_text(text), "</code>");
}

std::string place_of(const PageFinding& finding) {
  if (finding.place.empty()) return finding.code;
  return finding.code.empty() ? finding.place : concat(finding.place, " (", finding.code, ")");
}

std::string cause_of(const PageFinding& finding) {
  if (finding.causes.empty()) return "";
  const PageCause& cause = finding.causes.front();
  return cause.evidence.empty() ? cause.name : concat(cause.name, ": ", cause.evidence);
}

std::string findings_table(const PageAnswer& answer) {
  if (answer.findings.empty()) return "";
  std::map<std::string, const PageTensor*> by_id;
  for (const PageTensor& tensor : answer.tensors) by_id.emplace(tensor.id, &tensor);
  std::string text = concat("| # | ", answer.findings_are,
                            " | where | error over allowed | cause |\n|---|---|---|---|---|\n");
  for (std::size_t i = 0; i < answer.findings.size() && i < base::kShown.markdown_rows; ++i) {
    const PageFinding& finding = answer.findings[i];
    const auto tensor = by_id.find(finding.id);
    const bool measured = tensor != by_id.end() && tensor->second->used;
    text +=
        concat("| ", i + 1, " | ", shortened(finding.title), " | ", shortened(place_of(finding)),
               " | ", measured ? base::short_number(*tensor->second->used) : "", " | ",
               shortened(cause_of(finding)), " |\n");
  }
  const std::size_t more =
      answer.findings.size() - std::min(answer.findings.size(), base::kShown.markdown_rows);
  if (more > 0) text += concat("\nand ", base::plural(more, "more finding"), "\n");
  return text + "\n";
}

std::string counts_line(const PageAnswer& answer) {
  std::string text;
  for (const auto& [outcome, count] : answer.counts) {
    text += concat(text.empty() ? "" : " · ", count, " ", markdown_text(words(outcome)));
  }
  return text.empty() ? "" : concat(text, " (", answer.counted_as, ")\n\n");
}

std::string remarks_list(const PageAnswer& answer) {
  std::string text;
  for (std::size_t i = 0; i < answer.remarks.size() && i < base::kShown.markdown_items; ++i) {
    text += concat("- ", shortened(answer.remarks[i]), "\n");
  }
  if (answer.remarks.size() > base::kShown.markdown_items) {
    text += concat("- and ", answer.remarks.size() - base::kShown.markdown_items, " more\n");
  }
  return text.empty() ? "" : text + "\n";
}

std::string runs_line(const PageAnswer& answer) {
  std::string text;
  for (const PageRun& run : answer.runs) {
    text += concat(text.empty() ? "" : ", ", run.role, " ", code(run.facts.front().second));
  }
  return text.empty() ? "" : text + "\n";
}

}  // namespace

std::string markdown_text(std::string_view text) {
  // Joined to the character before it, an @ mentions nobody and a # names no issue.
  constexpr std::string_view kJoiner = "&#8288;";
  std::string out;
  for (const char c : base::printable(text)) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '@':
      case '#':
        out += c;
        out += kJoiner;
        break;
      case ':':
        // No "https://" that becomes a link.
        out += "&#58;";
        break;
      case '\\':
      case '`':
      case '*':
      case '_':
      case '[':
      case ']':
      case '|':
      case '~':
      case '!':
      case '$':
        out += concat("&#", static_cast<int>(c), ";");
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string markdown(const PageAnswer& answer) {
  return concat("### ttrace ", answer.command, "&#58; ", markdown_text(verdict_in_words(answer)),
                "\n\n**", shortened(answer.headline), "**\n\n", findings_table(answer),
                counts_line(answer), remarks_list(answer), runs_line(answer), "\n",
                code(answer.repeat), "\n");
}

}  // namespace ttrace::report
