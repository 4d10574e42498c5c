// The page: one self-contained HTML file of an answer, for people.
#pragma once

#include <string>

#include "report/page/page_answer.h"

namespace ttrace::report {

std::string html_page(const PageAnswer& answer);

}  // namespace ttrace::report
