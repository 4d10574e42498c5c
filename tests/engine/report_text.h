// A report as text in which two comparisons of the same traces must agree to the byte.
#pragma once

#include <sstream>
#include <string>

#include "report/text_report.h"
#include "report/told_json.h"

namespace ttrace::test {

// JSON and text, without what the environment may change.
inline std::string comparable(comparison::CompareReport report) {
  report.environment = {};
  std::ostringstream text;
  report::write_text(report, {false, true}, text);
  return json_text(report) + text.str();
}

}  // namespace ttrace::test
