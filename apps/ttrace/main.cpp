#include <unistd.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#include <cstdlib>
#include <exception>
#include <memory>
#include <new>
#include <stdexcept>

#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "command.h"
#include "machine.h"
#include "process.h"

namespace {

// Keeps the memory of the buffers of one tensor for those of the next. glibc would give it back to
// the system, and the system clears every page again.
void keep_freed_memory() {
#ifdef __GLIBC__
  constexpr int kKept = 4 << 20;  // bytes; the buffers of a tensor have a MiB
  ::mallopt(M_MMAP_THRESHOLD, kKept);
  ::mallopt(M_TRIM_THRESHOLD, kKept);
#endif
}

// Memory for the message of the handler below.
std::unique_ptr<char[]> reserve;

// Ends the process if memory runs out in a destructor, which must not throw (destructors of the
// JSON library allocate).
[[noreturn]] void end_without_memory() {
  reserve.reset();
  try {
    if (const std::exception_ptr error = std::current_exception()) std::rethrow_exception(error);
  } catch (const std::bad_alloc&) {
    ttrace::base::report_error(ttrace::base::describe_out_of_memory());
    ::_exit(2);  // the supervising process removes the unfinished outputs
  } catch (...) {
  }
  std::abort();
}

}  // namespace

int main(int argc, char** argv) {
  try {
    ttrace::app::require_stack();
    ttrace::app::allow_many_files();
    keep_freed_memory();
    constexpr std::size_t kReserve = std::size_t{1} << 18;
    reserve = std::make_unique<char[]>(kReserve);
    std::set_terminate(end_without_memory);
    CLI::App app{
        "ttrace finds and localizes silent bugs of distributed training by comparing traces"};
    ttrace::app::Action action;
    ttrace::app::add_top_level_flags(app);
    ttrace::app::add_compare_command(app, action);
    ttrace::app::add_audit_command(app, action);
    ttrace::app::add_run_command(app, action);
    ttrace::app::add_watch_command(app, action);
    ttrace::app::add_calibrate_command(app, action);
    ttrace::app::add_demo_command(app, action);
    ttrace::app::add_doctor_command(app, action);
    ttrace::app::add_explain_command(app, action);
    ttrace::app::add_inspect_command(app, action);
    ttrace::app::add_lint_command(app, action);
    ttrace::app::add_localize_command(app, action);
    ttrace::app::add_merge_command(app, action);
    ttrace::app::add_report_command(app, action);
    ttrace::app::add_selftest_command(app, action);
    ttrace::app::add_manual_commands(app, action);
    return ttrace::app::parse_and_run(app, action, argc, argv);
  } catch (const std::bad_alloc&) {
    ttrace::base::report_error(ttrace::base::describe_out_of_memory());
    return 2;
  } catch (const std::length_error&) {  // a size beyond any memory
    ttrace::base::report_error(ttrace::base::describe_out_of_memory());
    return 2;
  } catch (const std::exception& error) {
    ttrace::base::report_error(ttrace::base::printable(error.what()));
    return 2;
  }
}
