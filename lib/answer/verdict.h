// What a command says of a whole run, or of a module, and the exit code that tells it.
#pragma once

#include <string_view>

namespace ttrace::answer {

enum class Verdict {
  kRight,         // all that had to be checked was, and is as it should be
  kWrong,         // something is not
  kInconclusive,  // too little was checked to say
};

// The words of one command for its verdicts, as its JSON report has them.
struct VerdictWords {
  std::string_view right;
  std::string_view wrong;
  std::string_view inconclusive = "inconclusive";

  std::string_view of(Verdict verdict) const;
};

// 0 right, 1 wrong, 3 inconclusive.
int exit_code(Verdict verdict);

}  // namespace ttrace::answer
