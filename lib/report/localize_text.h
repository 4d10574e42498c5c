// The sections of the answer of `ttrace localize`.
#pragma once

#include <ostream>
#include <string>

#include "localize/localization.h"
#include "report/text_report.h"

namespace ttrace::report {

struct LocalizeAnswer {
  const char* verdict = "";  // "FINDINGS"
  const char* colour = "";   // an ANSI colour
  std::string headline;      // the rest of the first line
};

LocalizeAnswer localize_answer(const localize::LocalizeReport& report);

}  // namespace ttrace::report
