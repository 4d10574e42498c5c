#include <sys/resource.h>

#include <exception>

#include "base/error.h"
#include "base/log.h"
#include "base/number_text.h"
#include "command.h"
#include "version.h"

namespace {

// A run of thousands of ranks has as many files, and where the limit is 1,024 it is so for the sake
// of programs that use select().
void allow_many_files() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    allow_many_files();
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
