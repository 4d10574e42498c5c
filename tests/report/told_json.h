// The JSON of a comparison's answer, as `--json` writes it.
#pragma once

#include <string>

#include "answer/answer_json.h"
#include "report/to_answer/to_answer.h"

namespace ttrace::test {

inline std::string json_text(const comparison::CompareReport& report,
                             const report::AnswerStyle& style = {}) {
  return answer::json_of(report::to_answer(report, style));
}

}  // namespace ttrace::test
