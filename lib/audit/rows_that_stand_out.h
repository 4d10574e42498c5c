// Which rows of a tensor are not what it was computed from, and who holds them.
#pragma once

#include "audit/record.h"
#include "specification/evaluate/judge_expression.h"
#include "trace/source.h"

namespace ttrace::audit {

// Sets `rows` and `ranks` of the check where some rows of the tensor are beyond their bound.
void name_rows(const trace::Source& run, const specification::ExpressionJudgement& judged,
               const trace::TensorEntry& entry, AuditCheck& check);

}  // namespace ttrace::audit
