// What a comparison has measured of a tensor, as a line of text.
#pragma once

#include <string>
#include <string_view>

#include "comparison/checkpoint/checkpoint.h"

namespace ttrace::comparison {

// Returns why there is no measurement, replay or judgement; or empty.
const std::string& problem_of(const Finished& finished);

// Writes one line of printable ASCII without its end; exact to the bit, NaNs included.
std::string finished_line(const Finished& finished);

// Parses a line of finished_line(). Throws an input error, without a file's name, where it is not
// complete and undamaged. FinishedChecks finds out whether boxes, ranks and counts fit the tensors.
Finished parse_finished(std::string_view line);

}  // namespace ttrace::comparison
