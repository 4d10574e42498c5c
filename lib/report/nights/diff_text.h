// What is new between two reports, for people and (schemas/diff-v1.md) for programs.
#pragma once

#include <ostream>
#include <string>

#include "report/nights/diff.h"
#include "report/terminal_text.h"

namespace ttrace::report {

inline constexpr std::string_view kDiffSchema = "ttrace.diff/1";

// One screen; with `style.all` every finding and tensor that changed.
void write_diff(const NightDiff& diff, const TextStyle& style, std::ostream& out);

std::string diff_json(const NightDiff& diff);

}  // namespace ttrace::report
