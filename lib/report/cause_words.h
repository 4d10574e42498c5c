// What each cause means, and what to record to see more of it; and the words of a report. For
// `ttrace explain`.
#pragma once

#include <string_view>
#include <vector>

namespace ttrace::report {

struct CauseWords {
  std::string_view cause;
  std::string_view meaning;
  std::string_view record;  // what to record next, or empty
};

const std::vector<CauseWords>& cause_words();

struct Word {
  std::string_view word;
  std::string_view also;  // another spelling, or empty
  std::string_view meaning;
};

const std::vector<Word>& glossary();

}  // namespace ttrace::report
