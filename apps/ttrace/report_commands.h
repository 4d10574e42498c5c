// The commands of `ttrace report` that have files of their own.
#pragma once

#include "command.h"

namespace ttrace::app {

void add_report_diff_command(CLI::App& report, Action& action);
void add_report_trend_command(CLI::App& report, Action& action);

}  // namespace ttrace::app
