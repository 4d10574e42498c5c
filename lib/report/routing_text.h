// Routing flips in words.
#pragma once

#include <iosfwd>
#include <string>

#include "report/compare_report.h"

namespace ttrace::report {

// Why the decision of a router is judged as it is: of one tensor.
std::string flip_words(const RouterFlips& router);

// "without the rows of 3 tokens that went to other experts", or empty.
std::string left_out_words(const Result& result);

// Which routers sent tokens elsewhere, and what could not be judged for it; nothing where none did.
void write_routing(const CompareReport& report, bool all, std::ostream& out);

}  // namespace ttrace::report
