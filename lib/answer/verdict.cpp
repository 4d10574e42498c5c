#include "answer/verdict.h"

namespace ttrace::answer {

std::string_view VerdictWords::of(Verdict verdict) const {
  switch (verdict) {
    case Verdict::kRight:
      return right;
    case Verdict::kWrong:
      return wrong;
    case Verdict::kInconclusive:
      break;
  }
  return inconclusive;
}

int exit_code(Verdict verdict) {
  switch (verdict) {
    case Verdict::kRight:
      return 0;
    case Verdict::kWrong:
      return 1;
    case Verdict::kInconclusive:
      break;
  }
  return 3;
}

}  // namespace ttrace::answer
