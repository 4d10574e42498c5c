// How close the tensors of a job came to their limits over many nights.
#pragma once

#include <ostream>
#include <vector>

#include "report/nights/night.h"
#include "report/terminal_text.h"

namespace ttrace::report {

// One line for each of the worst tensors: `used` of the last nights as a picture on a logarithmic
// scale and in numbers; then the verdicts and what changed. `style.all`: every tensor. There must
// be a night. Throws an input error if the reports are of several commands.
void write_trend(const std::vector<Night>& nights, const TextStyle& style, std::ostream& out);

}  // namespace ttrace::report
