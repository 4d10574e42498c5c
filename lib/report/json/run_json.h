// The members of JSON reports about the runs and the comparison as a whole (schemas/report-v2.md).
#pragma once

#include "comparison/result.h"
#include "report/json/report_text_json.h"

namespace ttrace::report {

json trace_json(const answer::TraceFacts& facts);

// What tells the trace from others, wherever it lies: `run_id`, `bytes`, `manifest`, `content`.
// Null for a trace without files.
json identity_json(const answer::TraceFacts& facts);

// Where the trace lies, and when it was written.
json place_json(const answer::TraceFacts& facts);

json selection_json(const comparison::Selection& selection);

void add_runs(const comparison::CompareReport& report, const json& tolerance, ReportText& text);

json environment_json(const answer::Environment& environment);

json tolerance_json(const comparison::CompareReport& report);

}  // namespace ttrace::report
