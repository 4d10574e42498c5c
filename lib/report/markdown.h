// An answer in Markdown, for a job's summary or a comment: at most one screen.
#pragma once

#include <string>
#include <string_view>

namespace ttrace::report {

// The Markdown of the JSON that compare, audit or localize writes (GitHub's, with tables). Texts of
// the report are data: none becomes markup, a link or a mention of a person. `file`: where it is
// from, for errors. Throws an input error for any other JSON.
std::string markdown(std::string_view text, const std::string& file);

// `text` as Markdown shows it; for tests.
std::string markdown_text(std::string_view text);

}  // namespace ttrace::report
