#include "comparison/result.h"

namespace ttrace::comparison {
std::string_view verdict_name(Verdict verdict) {
  switch (verdict) {
    case Verdict::kMatch:
      return "match";
    case Verdict::kDiverged:
      return "diverged";
    case Verdict::kInconclusive:
      return "inconclusive";
  }
  return "";
}

int exit_code(Verdict verdict) {
  switch (verdict) {
    case Verdict::kMatch:
      return 0;
    case Verdict::kDiverged:
      return 1;
    case Verdict::kInconclusive:
      return 3;
  }
  return 3;
}

}  // namespace ttrace::comparison
