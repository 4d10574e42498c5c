// An answer as JUnit XML, which pipelines read: one test case for each step and module.
#pragma once

#include <string>
#include <string_view>

namespace ttrace::report {

// The JUnit XML of the JSON that compare, audit or localize writes, as Jenkins' schema has it. The
// first case is the verdict: an inconclusive one is an error, so that a run that was not checked
// never looks green. A module fails if one of its tensors is wrong, is an error if one could not be
// read or compared, and is skipped if none was judged. `file`: where it is from, for errors. Throws
// an input error for any other JSON.
std::string junit(std::string_view json, const std::string& file);

}  // namespace ttrace::report
