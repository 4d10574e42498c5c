// An answer as JUnit XML, which pipelines read: one test case for each step and module.
#pragma once

#include <string>

#include "report/page/page_answer.h"

namespace ttrace::report {

// JUnit XML as Jenkins' schema has it. The first case is the verdict: an inconclusive one is an
// error, so that a run that was not checked never looks green. A module fails if one of its tensors
// is wrong, is an error if one could not be read or compared, and is skipped if none was judged.
std::string junit(const PageAnswer& answer);

}  // namespace ttrace::report
