// An answer in Markdown, for a job's summary or a comment: at most one screen.
#pragma once

#include <string>
#include <string_view>

#include "report/page/page_answer.h"

namespace ttrace::report {

// The answer in GitHub's Markdown, with tables. Texts of the answer are data: none becomes markup,
// a link or a mention of a person.
std::string markdown(const PageAnswer& answer);

// `text` as Markdown shows it; for tests.
std::string markdown_text(std::string_view text);

}  // namespace ttrace::report
