#include <sys/stat.h>

#include <cerrno>
#include <filesystem>
#include <iostream>
#include <memory>

#include "base/error.h"
#include "base/files.h"
#include "base/log.h"
#include "base/text.h"
#include "command.h"
#include "comparison.h"
#include "demo/archive.h"
#include "outputs.h"

namespace ttrace::app {
namespace {

struct DemoFlags {
  std::string folder = "ttrace-demo";
  std::string colour = "auto";
};

void write_traces(const std::string& path) {
  NewFolder folder(path);
  try {
    for_each_demo_file([&folder](const std::string& name, std::string_view bytes) {
      const std::string file = folder.file(name);
      if (const std::size_t slash = name.find('/'); slash != std::string::npos) {
        const std::string run = folder.file(name.substr(0, slash));
        if (::mkdir(run.c_str(), 0777) != 0 && errno != EEXIST) {
          throw base::output_error(run, ": cannot be created: ", base::writing_problem(errno));
        }
      }
      base::NewFile(file, base::Existing::kKept).store(bytes);
    });
    folder.put_in_place();
  } catch (const base::Error& error) {
    throw folder.named(error);
  }
}

constexpr const char* kWhatToLookAt =
    "\nWhat to look at\n"
    "  The first line is the answer: what is wrong, in how many parameters, over which axis.\n"
    "  \"where\" is the part of the step, \"proof\" why it is this bug and no other, and \"look "
    "at\"\n"
    "  what to look at in the code. \"depth\" is the whole step at a glance: ▁ agrees, █ does "
    "not.\n";

// Each of these lines works as it stands, after the one above it; tests/cli/test_demo.py types
// them.
constexpr const char* kWhatToType =
    "\nWhat to type next\n"
    "  ttrace compare ref.h5 healthy --noise noise1.h5                    # without the bug\n"
    "  ttrace compare ref.h5 buggy --noise noise1.h5 --html page.html     # a page for a browser\n"
    "  ttrace compare ref.h5 buggy --noise noise1.h5 --explain 1          # the finding in words\n"
    "  ttrace localize ref.h5 buggy --noise noise1.h5 --specification specification.json\n"
    "  ttrace audit buggy --specification specification.json              # without a reference\n"
    "  ttrace explain missing_reduction                                   # the bug, where it was\n"
    "  ttrace help run                                                    # then: your own job\n";

int run_demo(const DemoFlags& flags) {
  write_traces(flags.folder);
  const std::filesystem::path folder(flags.folder);
  ComparisonFlags asked;
  asked.pair.reference = (folder / "ref.h5").string();
  asked.pair.candidate = (folder / "buggy").string();
  asked.pair.noise = {(folder / "noise1.h5").string()};
  if (!base::is_quiet()) {
    std::cout
        << "One training step of a small GPT: recorded on one process (ref.h5), on two with\n"
           "tensor parallelism (healthy), and on two with a bug (buggy), which nobody notices:\n"
           "the loss is right, and the job runs on.\n\n  cd "
        << base::printable(flags.folder) << "\n  ttrace compare ref.h5 buggy --noise noise1.h5\n\n";
  }
  AnswerFlags answer;
  answer.colour = flags.colour;
  AnswerOutput output(answer);
  const Comparison comparison(asked);
  const comparison::CompareReport report = comparison.run(nullptr, {}, nullptr);
  output.write(answer_of(report, false));
  if (!base::is_quiet()) std::cout << kWhatToLookAt << kWhatToType;
  return 0;
}

}  // namespace

void add_demo_command(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("demo", "see a bug found: writes a small pair of runs");
  const auto flags = std::make_shared<DemoFlags>();
  command->add_option("FOLDER", flags->folder, "a new folder (default: ttrace-demo)");
  add_colour_flag(*command, flags->colour);
  command->footer("Exit codes: 0 written and shown, 2 usage, or the folder cannot be written.");
  command->callback([flags, &action] { action = [flags] { return run_demo(*flags); }; });
}

}  // namespace ttrace::app
