// The answer of `ttrace explain`: a finding of a report, a cause, or a word, in full sentences.
#pragma once

#include <ostream>
#include <string>

#include "answer/answer.h"
#include "report/terminal_text.h"
#include "report/text_report.h"

namespace ttrace::report {

// Explains finding `number` (from 1) of an answer of compare, localize or audit, which is from
// `file`. Throws a usage error if there is no such finding.
void explain_finding(std::size_t number, const answer::Answer& answer, const std::string& file,
                     const TextStyle& style, std::ostream& out);

// Says with an answer that was just given what explain_finding() says of it, and where there is no
// such finding, that: the question was asked before the answer was known.
void explain_answer(std::size_t number, const answer::Answer& answer, const std::string& file,
                    const TextStyle& style, std::ostream& out);

// Explains a cause or a word. Throws a usage error that names the nearest ones for anything else.
void explain_word(const std::string& word, const TextStyle& style, std::ostream& out);

}  // namespace ttrace::report
