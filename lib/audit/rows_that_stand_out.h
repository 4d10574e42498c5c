// Which rows of a tensor do not follow from its inputs, and which ranks hold them.
#pragma once

#include "audit/record.h"
#include "specification/evaluate/judge_expression.h"
#include "trace/source.h"

namespace ttrace::audit {

// Sets `rows` and `ranks` of the check where some rows of the tensor are beyond their bound.
void name_rows(const trace::Source& run, const specification::ExpressionJudgement& judged,
               const trace::TensorEntry& entry, AuditCheck& check);

}  // namespace ttrace::audit
