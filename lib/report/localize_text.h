// The sections of the answer of `ttrace localize`.
#pragma once

#include <ostream>
#include <string>

#include "localize/localization.h"
#include "report/first_line.h"

namespace ttrace::report {

FirstLine localize_answer(const localize::LocalizeReport& report);

}  // namespace ttrace::report
