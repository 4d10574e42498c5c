// The first line of a report, which is its answer: the sentence, then one clause for every thing
// that makes the answer worth less, the most serious first. It has at most 200 characters.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/message.h"
#include "report/terminal_text.h"
#include "report/text_report.h"

namespace ttrace::report {

inline constexpr std::size_t kFirstLineColumns = 200;

// A remark beside the verdict, and how many tensors it concerns.
struct Clause {
  enum class Weight {
    kUnchecked,  // its tensors were selected and not checked
    kDoubt,      // what was checked says less than it seems to
    kFact,       // takes nothing from the answer
  };

  std::string_view name;  // for programs: "below_noise_floor"
  Weight weight = Weight::kFact;
  std::uint64_t tensors = 0;  // 0 if it concerns the run as a whole
  base::Message message;
  std::string_view in_short = {};  // the template in fewer words, or empty
};

struct FirstLine {
  const char* verdict = "";  // "MATCH"
  const char* colour = "";   // an ANSI colour
  std::string sentence;      // never left out
  // Follows the sentence at once, as in " (...)"; left out if it does not fit.
  std::string aside = {};
  std::vector<Clause> clauses = {};  // the most serious first
  // Ends of the line to choose from, long to short, without the separator; left out if none fits.
  std::vector<std::string> closing = {};
};

// The line, and what had no place in it.
struct WrittenFirstLine {
  std::string text;              // without the end of the line
  bool is_cut = false;           // the sentence lost its middle
  std::vector<Clause> left_out;  // and those that lost the end of what they say
};

// Joins the parts by "; ". Where they are too long, the clauses are shortened, then the aside goes,
// then the last clauses become "and 230 more not checked" or "and 2 more remarks". Where the
// number of tensors that were not checked has no place, the first clause stays, and a sentence that
// is too long loses its middle.
WrittenFirstLine write_first_line(const FirstLine& line, const TextStyle& style);

}  // namespace ttrace::report
