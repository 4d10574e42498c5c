#include <exception>

#include "base/error.h"
#include "base/log.h"
#include "base/number_text.h"
#include "command.h"
#include "version.h"

int main(int argc, char** argv) {
  try {
    CLI::App app{
        "ttrace finds and localizes silent bugs of distributed training by comparing traces"};
    ttrace::app::Action action;
    ttrace::app::add_top_level_flags(app);
    ttrace::app::add_compare_command(app, action);
    ttrace::app::add_calibrate_command(app, action);
    ttrace::app::add_inspect_command(app, action);
    ttrace::app::add_lint_command(app, action);
    ttrace::app::add_merge_command(app, action);
    ttrace::app::add_report_command(app, action);
    ttrace::app::add_selftest_command(app, action);
    ttrace::app::add_synth_command(app, action);
    return ttrace::app::parse_and_run(app, action, argc, argv);
  } catch (const std::exception& error) {
    ttrace::base::report_error(ttrace::base::printable(error.what()));
    return 2;
  }
}
