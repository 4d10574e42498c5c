// Reads what a page shows from the JSON of an answer.
#pragma once

#include "base/strict_json.h"
#include "report/page/page_answer.h"

namespace ttrace::report {

// Throws an input error with file and JSON pointer for a report that is not of these commands, of
// another version, or not as its schema says.
PageAnswer read_page_answer(const base::JsonCursor& root);

}  // namespace ttrace::report
