// Reads files of known differences (schemas/known-v1.md).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "report/nights/known.h"

namespace ttrace::report {

inline constexpr std::string_view kKnownSchema = "ttrace.known/1";

// Throws an input error naming the file and the place in it.
std::vector<KnownDifference> parse_known(std::string_view text, const std::string& file);

}  // namespace ttrace::report
