// A tensor judged by its expression, as text that another process reads: of a part of an audit, or
// of an audit that was interrupted.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "audit/record.h"

namespace ttrace::audit {

struct ExpressionJudged {
  std::string problem;  // why it was not judged, or empty: then all else counts
  AuditCheck check;
  std::uint64_t endless = 0;  // see AuditedTensor
};

// Exact to the bit. `judged` has no problem.
std::string judgement_text(const ExpressionJudged& judged);
// Throws an input error, without a file's name, for any other text.
ExpressionJudged parse_judgement(std::string_view text);

}  // namespace ttrace::audit
