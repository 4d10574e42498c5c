#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <memory>

#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "command.h"
#include "engine/doctor/examine.h"
#include "flags/execution.h"
#include "inputs.h"
#include "installed.h"
#include "machine.h"
#include "report/text_report.h"
#include "terminal.h"

namespace ttrace::app {
namespace {

using engine::Diagnosis;
using engine::Health;

struct DoctorFlags {
  std::string reference;
  std::string candidate;
  std::vector<std::string> noise;
  std::string layout;
  unsigned threads = 0;
};

Diagnosis disk() {
  constexpr std::uint64_t kLittle = std::uint64_t{1} << 30;
  std::error_code error;
  const std::filesystem::space_info space = std::filesystem::space(".", error);
  if (error) return {"disk", Health::kNote, "the room on it is not known"};
  const std::string room = base::concat(base::human_bytes(space.available), " free here");
  if (space.available >= kLittle) return {"disk", Health::kFine, room};
  return {"disk", Health::kWrong,
          base::concat(room, "; reports and traces need more, write them to another disk")};
}

const char* mark_of(Health health) {
  switch (health) {
    case Health::kFine:
      return "✓";
    case Health::kNote:
      return "–";
    case Health::kWrong:
      return "✗";
  }
  return "";
}

// Prints the answer and a line for each check. Returns the exit code.
int print(const std::vector<Diagnosis>& all, const std::string& of_what) {
  constexpr std::size_t kName = 14;  // columns of the longest name and a space
  std::string wrong;
  std::size_t count = 0;
  for (const Diagnosis& one : all) {
    if (one.health != Health::kWrong) continue;
    ++count;
    wrong += base::concat(wrong.empty() ? "" : ", ", one.name);
  }
  const std::size_t width = text_width(STDOUT_FILENO);
  std::cout << report::folded(
                   count == 0 ? base::concat("READY  ", of_what, ": ", all.size(),
                                             " checks, nothing stands in the way")
                              : base::concat("NOT READY  ", of_what, ": ", count, " of ",
                                             base::plural(all.size(), "check"), " failed: ", wrong),
                   width)
            << "\n";
  if (base::is_quiet()) return count == 0 ? 0 : 1;
  for (const Diagnosis& one : all) {
    const std::string gap(one.name.size() < kName ? kName - one.name.size() : 1, ' ');
    std::cout << report::folded(base::concat("  ", mark_of(one.health), " ", one.name, gap,
                                             base::shortened(base::printable(one.text))),
                                width)
              << "\n";
  }
  return count == 0 ? 0 : 1;
}

int examine_runs(const DoctorFlags& flags) {
  const std::unique_ptr<trace::Source> reference = open_and_log(flags.reference);
  const OpenedTrace candidate(flags.candidate, flags.layout);
  std::vector<std::unique_ptr<trace::Source>> opened;
  std::vector<const trace::Source*> noise;
  for (const std::string& run : flags.noise) {
    noise.push_back(opened.emplace_back(open_and_log(run)).get());
  }
  engine::DoctorOptions options{execution_context(flags.threads),
                                files_of_no_rank(flags.candidate, *candidate)};
  for (std::string& stray : files_of_no_rank(flags.reference, *reference)) {
    options.strays.push_back(std::move(stray));
  }
  std::vector<Diagnosis> all = engine::examine(*reference, *candidate, noise, options);
  all.push_back(disk());
  return print(all, base::concat(base::printable(flags.reference), " and ",
                                 base::printable(flags.candidate)));
}

int run_doctor(const DoctorFlags& flags) {
  if (!flags.candidate.empty()) return examine_runs(flags);
  if (!flags.reference.empty()) {
    throw base::usage_error(
        "doctor takes REF and RUN, or neither; of one trace alone, see `ttrace "
        "lint ",
        flags.reference, "`");
  }
  if (!flags.noise.empty()) throw base::usage_error("--noise needs REF and RUN");
  std::vector<Diagnosis> all = examine_installation();
  all.push_back(disk());
  return print(all, "this installation");
}

constexpr const char* kHowToReadDoctor =
    "✓ fine, – worth knowing, ✗ wrong, with the way out. Reads some hundred MB of parameters at "
    "most.\n"
    "`python -m ttrace_torch doctor SCRIPT` looks at a training script.\n"
    "Exit codes: 0 nothing stands in the way, 1 something does, 2 usage or unreadable input.";

}  // namespace

void add_doctor_command(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand(
      "doctor", "can these two runs be compared? or, without any: what is installed?");
  const auto flags = std::make_shared<DoctorFlags>();
  add_reference(*command, flags->reference);
  command->add_option("RUN", flags->candidate, "the trace to check");
  add_noise_flag(*command, flags->noise);
  add_threads_flag(*command, flags->threads);
  add_layout_flag(*command, flags->layout);
  command->footer(kHowToReadDoctor);
  command->callback([flags, &action] { action = [flags] { return run_doctor(*flags); }; });
}

}  // namespace ttrace::app
