#include <map>
#include <memory>
#include <string_view>

#include "answer_output.h"
#include "auditing.h"
#include "base/deflate.h"
#include "base/error.h"
#include "base/text.h"
#include "command.h"
#include "comparison.h"
#include "comparison/checkpoint/checkpoint_lines.h"
#include "flags/execution.h"
#include "flags/flag_group.h"
#include "flags/policy.h"
#include "localization.h"
#include "outputs.h"
#include "report/file_formats.h"
#include "report/json/part_of_work_json.h"
#include "report/page/read_answer.h"
#include "report/page/shown_text.h"
#include "report_commands.h"
#include "separate_files.h"

namespace ttrace::app {
namespace {

struct ReportMergeFlags {
  std::vector<std::string> parts;
  unsigned threads = 0;
  AnswerFlags answer;
  PolicyFlags policy;
  bool all_slices = false;
};

struct PartFile {
  std::string path;
  comparison::PartOfWork part;
};

// "an audit": the work that the parts belong to.
const char* describe_work(const PartFile& file) {
  const comparison::ComparisonId& id = file.part.comparison;
  if (id.localized) return "a localization";
  return id.reference.empty() ? "an audit" : "a comparison";
}

void require_same_work(const PartFile& first, const PartFile& other) {
  const std::string_view work = describe_work(other);
  if (work != describe_work(first)) {
    throw base::input_error(other.path, ": is a part of ", work, ", and ", first.path, " is not");
  }
  const std::string difference = describe_difference(first.part.comparison, other.part.comparison);
  if (!difference.empty()) {
    throw base::input_error(other.path, ": is a part of another ", work.substr(work.find(' ') + 1),
                            " than ", first.path, ": ", difference);
  }
  if (other.part.number.of != first.part.number.of) {
    throw base::input_error(other.path, ": is one of ", base::plural(other.part.number.of, "part"),
                            ", and ", first.path, " one of ", first.part.number.of);
  }
}

// Reads the reports of shares of one work, by share number.
std::map<std::uint64_t, PartFile> all_parts(const std::vector<std::string>& paths) {
  std::map<std::uint64_t, PartFile> parts;
  for (const std::string& path : paths) {
    PartFile file{path, report::parse_share(base::read_report(path), path)};
    const std::uint64_t index = file.part.number.index;
    if (!parts.empty()) require_same_work(parts.begin()->second, file);
    if (file.part.interrupted) {
      throw base::input_error(path, ": part ", index, " was interrupted; run it again, to its end");
    }
    const auto [known, fresh] = parts.emplace(index, std::move(file));
    if (!fresh) {
      throw base::input_error(path, ": is part ", index, ", as ", known->second.path,
                              " is; give every part once");
    }
  }
  return parts;
}

// What the parts know of rank files on several machines. Throws an input error where a file of one
// name differs on two.
LocalFiles files_of(const std::map<std::uint64_t, PartFile>& parts) {
  LocalFiles local{parts.begin()->second.part.comparison.local_files};
  std::map<std::string, std::pair<std::string, std::uint64_t>> known;  // state, and the part
  for (const auto& [index, file] : parts) {
    for (const auto& [name, state] : file.part.files) {
      const auto& [first_state, first] = known.emplace(name, std::pair(state, index)).first->second;
      if (first_state == state) continue;
      throw base::input_error(file.path, ": ", base::printable(name), " is ", first_state,
                              " in part ", first, " and ", state, " in part ", index,
                              "; copy the run's own file to each machine");
    }
  }
  if (parts.size() < parts.begin()->second.part.number.of) return local;  // others may have more
  local.had.emplace();
  for (const auto& [name, state] : known) local.had->insert(name);
  return local;
}

// Throws an input error where a file that is here is not what the parts read.
void require_same_files(const std::map<std::uint64_t, PartFile>& parts, const SharedWork& work) {
  const std::map<std::string, std::string> here = work.files_here();
  for (const auto& [index, file] : parts) {
    for (const auto& [name, state] : file.part.files) {
      const auto found = here.find(name);
      if (found == here.end() || found->second == state) continue;
      throw base::input_error(file.path, ": the inputs have changed since: ", base::printable(name),
                              " was ", state, " there and is ", found->second,
                              " here; make all parts again");
    }
  }
}

void record_all(const PartFile& file, comparison::Checkpoint& work) {
  for (std::size_t i = 0; i < file.part.measurements.size(); ++i) {
    const auto refuse = [&](const std::string& why) {
      return base::input_error(file.path, ": /part/measurements/", i, ": ", why);
    };
    bool fresh = true;
    try {
      comparison::Finished finished = comparison::parse_finished(file.part.measurements[i]);
      if (file.part.comparison.local_files) {
        work.restore_one_of(std::move(finished));
      } else {
        fresh = work.restore(std::move(finished));
      }
    } catch (const base::Error& error) {
      throw refuse(error.what());
    }
    if (!fresh) throw refuse("is of a tensor that has been measured already");
  }
}

// Throws a usage error if a file of the answer is an input of the work, which only the parts name.
void require_not_read(const AnswerFlags& answer, const comparison::ComparisonId& id) {
  std::vector<GivenFile> files;
  for (std::size_t i = 0; i < answer.files.size(); ++i) {
    if (is_github(i, answer.files[i])) continue;
    files.push_back({flag_of_format(i), answer.files[i], true, false});
  }
  const auto read = [&files](const std::string& path, bool trace) {
    files.push_back({"an input of the parts", path, false, trace});
  };
  for (const std::string& trace : {id.reference, id.candidate}) read(trace, true);
  for (const std::string& trace : id.noise) read(trace, true);
  for (const std::string& file :
       {id.tolerance, id.layout, id.map, id.specification, id.candidate_specification, id.report}) {
    read(file, false);
  }
  require_separate(files);
}

int run_report_merge(const ReportMergeFlags& flags) {
  const auto policy = flags.policy.read();
  const std::map<std::uint64_t, PartFile> parts = all_parts(flags.parts);
  const PartFile& first = parts.begin()->second;
  const comparison::ComparisonId& id = first.part.comparison;
  const bool of_audit = id.reference.empty();
  if (flags.all_slices && (of_audit || id.localized)) {
    throw base::usage_error("--all-slices is for parts of a comparison, and ", first.path,
                            " is of ", describe_work(first));
  }
  AuditedRunFlags audited = audit_flags_of(id);
  audited.threads = flags.threads;
  LocalizeFlags localized = localize_flags_of(id);
  localized.comparison.pair.threads = flags.threads;
  localized.comparison.all_slices = flags.all_slices;
  audited.local = localized.comparison.pair.local = files_of(parts);
  require_not_read(flags.answer, id);
  AnswerOutput output(flags.answer);
  std::unique_ptr<SharedWork> work;
  if (of_audit) {
    work = std::make_unique<SharedAudit>(audited);
  } else if (id.localized) {
    work = std::make_unique<SharedLocalization>(localized);
  } else {
    work = std::make_unique<SharedComparison>(localized.comparison);
  }
  const std::string changed = describe_difference(id, work->id());
  if (!changed.empty()) {
    throw base::input_error(first.path, ": the inputs have changed since: ", changed,
                            "; make all parts again");
  }
  if (id.local_files) require_same_files(parts, *work);
  comparison::Checkpoint done;
  comparison::WorkDivision division;
  division.measured_by.resize(first.part.number.of);
  if (id.local_files) division.had.emplace(first.part.number.of);
  for (const auto& [index, file] : parts) {
    for (const auto& [name, state] : file.part.files) division.had->at(index - 1).insert(name);
    record_all(file, done);
    division.measured_by[index - 1] = file.path;
  }
  work->run(&done, std::move(division), nullptr);
  done.require_all_taken();
  return output.write(policed(work->answer(), policy));
}

constexpr const char* kText = "text";
constexpr const char* kLine = "line";

struct ReportShowFlags {
  std::string report;
  std::string format = kText;
  std::string output = "-";
};

int run_report_show(const ReportShowFlags& flags) {
  OutputFile output(flags.output);
  const std::string json = base::read_report(flags.report);
  const report::PageAnswer answer = report::read_page_answer(json, flags.report);
  for (const report::FileFormat& format : report::file_formats()) {
    if (format.name != flags.format) continue;
    output.store(format.render == nullptr ? json : format.render(answer));
    return 0;
  }
  output.store(flags.format == kLine ? report::shown_line(answer) : report::shown_text(answer));
  return 0;
}

void add_show_command(CLI::App& report, Action& action) {
  CLI::App* show = report.add_subcommand(
      "show", "an answer in JSON (`compare`, `localize` or `audit --json FILE`) for people");
  const auto flags = std::make_shared<ReportShowFlags>();
  show->add_option("REPORT", flags->report, "the file in JSON, or FILE.json.gz")->required();
  std::vector<std::string> formats{kText, kLine};
  for (const report::FileFormat& format : report::file_formats()) formats.emplace_back(format.name);
  FlagGroup(*show, kAnswer)
      .choice("--format", flags->format, formats,
              "text, its first line alone, or a format of files");
  add_output_flag(*show, flags->output, "a file; - is standard output");
  show->footer("Exit codes: 0 shown, 2 usage or unreadable input.");
  show->callback([flags, &action] { action = [flags] { return run_report_show(*flags); }; });
}

}  // namespace

void add_report_command(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("report", "what can be done with reports in JSON");
  command->require_subcommand(1);
  add_show_command(*command, action);
  add_report_diff_command(*command, action);
  add_report_trend_command(*command, action);
  CLI::App* merge = command->add_subcommand(
      "merge",
      "join the parts of a comparison, an audit or a localization (`--part I/N --json FILE`)");
  const auto flags = std::make_shared<ReportMergeFlags>();
  merge->add_option("PART", flags->parts, "the reports of all parts, in any order")->required();
  add_threads_flag(*merge, flags->threads);
  flags->answer.add_to(*merge, kAllOfComparison);
  flags->policy.add_to(*merge);
  add_slices_flag(*merge, flags->all_slices);
  merge->footer(
      "For nights: --known, --require, --fail-on, --since.\n"
      "Exit codes, those of the command: 0 match or holds, 1 diverged, broken or findings,\n"
      "2 usage or unreadable input, 3 inconclusive: also where a part is missing.");
  merge->callback([flags, &action] { action = [flags] { return run_report_merge(*flags); }; });
}

}  // namespace ttrace::app
