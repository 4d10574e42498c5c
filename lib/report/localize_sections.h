// The sections of the answer of `ttrace localize`.
#pragma once

#include <ostream>
#include <string>

#include "audit/localization.h"
#include "report/text_report.h"

namespace ttrace::report {

struct LocalizeAnswer {
  const char* verdict = "";  // "FINDINGS"
  const char* colour = "";   // an ANSI colour
  std::string headline;      // the rest of the first line
};

LocalizeAnswer localize_answer(const audit::LocalizeReport& report);

// The sentence of a finding, as the report of the comparison has it.
std::string sentence_of(const audit::LocalizedFinding& finding);

// The first screen; `first_line` has its colour.
void write_localize_screen(const audit::LocalizeReport& report, const std::string& first_line,
                           const TextStyle& style, std::ostream& out);

}  // namespace ttrace::report
