#include "shared_work.h"

#include <charconv>
#include <optional>

#include "base/bytes.h"
#include "base/error.h"
#include "base/files.h"
#include "base/message.h"
#include "base/strict_json.h"
#include "base/text.h"
#include "comparison/checkpoint/checkpoint_lines.h"
#include "flags/flag_group.h"
#include "process.h"
#include "report/json/part_of_work_json.h"
#include "state_file.h"

namespace ttrace::app {
namespace {

std::optional<std::uint64_t> whole_number(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

comparison::PartNumber part_number(const std::string& text) {
  const std::size_t slash = text.find('/');
  if (slash != std::string::npos) {
    const auto index = whole_number(std::string_view(text).substr(0, slash));
    const auto of = whole_number(std::string_view(text).substr(slash + 1));
    if (index && of && *index >= 1 && *index <= *of && *of <= comparison::kMostParts) {
      return {*index, *of};
    }
  }
  throw base::usage_error("--part ", base::printable(text),
                          ": expected a part and how many there are, from 1/8 to 8/8");
}

constexpr char kCompleted = 'd';
constexpr char kInterrupted = 'i';

// The text of a rank's share: which work, whether it was completed, and its measurements, one
// per line.
std::string text_of(const comparison::PartOfWork& part) {
  std::string text = report::comparison_id_text(part.comparison);
  text += '\n';
  text += part.interrupted ? kInterrupted : kCompleted;
  for (const std::string& line : part.measurements) text.append("\n").append(line);
  return text;
}

// The shares of all ranks.
struct Gathered {
  comparison::Checkpoint work;
  comparison::WorkDivision division;
  bool interrupted = false;
};

void add_rank(const std::string& text, const comparison::ComparisonId& mine, Gathered& all) {
  const std::string name = base::concat("rank ", all.division.measured_by.size());
  all.division.measured_by.push_back(name);
  std::size_t at = text.find('\n');
  const base::JsonDocument document(text.substr(0, at), name);
  const std::string difference =
      describe_difference(report::comparison_id_from(document.root()), mine);
  if (!difference.empty()) {
    throw base::input_error(name, ": sees other files than rank 0: ", difference);
  }
  all.interrupted = all.interrupted || text.at(at + 1) == kInterrupted;
  for (at = text.find('\n', at + 1); at != std::string::npos;) {
    const std::size_t end = text.find('\n', at + 1);
    all.work.restore(
        comparison::parse_finished(std::string_view(text).substr(at + 1, end - at - 1)));
    at = end;
  }
}

// Appends to `why` of an interrupted report how to continue it.
void add_resume_hint(const SharedWorkFlags& flags, SharedWork& work) {
  if (!work.interrupted()) return;
  work.add_to_why(flags.resume.empty() ? "; with --resume STATE it could go on from there"
                                       : "; the same command goes on from there");
}

}  // namespace

void SharedWorkFlags::add_to(CLI::App& command, const std::string& does, LocalFiles& local) {
  const FlagGroup shared(command, kWork);
  shared.value("--resume FILE", resume,
               "keep what is finished in this file, and go on from what it has");
  shared.value("--part I/N", part,
               base::concat(does, " this share; `ttrace report merge` joins the --json files"));
  const FlagGroup rare(command, kRare);
  rare.choice("--mpi", mpi, {"auto", "off"},
              "auto: processes that mpirun has started share the work");
  rare.flag("--local-files", local.given,
            "with --part: rank files lie on the disks of several machines; judge the tensors that "
            "this one has all files of");
}

comparison::PartOfWork run_share(SharedWork& work, const SharedWorkFlags& flags, bool for_merge) {
  comparison::WorkDivision division;
  if (!flags.part.empty()) division.part = part_number(flags.part);
  comparison::PartOfWork share;
  if (!flags.resume.empty() || division.part) share.comparison = work.id();
  comparison::ComparisonId state_of = share.comparison;
  if (state_of.local_files) {
    share.files = work.files_here();
    division.had.emplace(1);
    for (const auto& [file, state] : share.files) {
      division.had->front().insert(file);
      state_of.facts.emplace_back(base::concat("the file ", file), state);
    }
  }

  const StopSignal stop;
  std::optional<StateFile> state;
  std::function<void(const std::string&)> on_line;
  if (!flags.resume.empty()) {
    state.emplace(flags.resume, state_of);
    on_line = [&state](const std::string& line) { state->append(line); };
  }
  comparison::Checkpoint done(on_line, division.part && for_merge);
  if (state) state->load(done);
  work.run(&done, division, &stop.flag());
  if (state) state->close();
  add_resume_hint(flags, work);
  if (!division.part) return share;
  share.number = *division.part;
  share.interrupted = work.interrupted();
  share.measurements = done.lines();
  work.set_part(share);
  return share;
}

int run_as_rank(const MpiRank& me, const SharedWorkFlags& flags, const AnswerFlags& answer,
                const PolicyFlags& policy,
                const std::function<std::unique_ptr<SharedWork>()>& open) {
  if (!flags.part.empty()) {
    throw base::usage_error(
        "--part divides the work that mpirun has divided already; leave it "
        "out, or say --mpi off");
  }
  const MpiModule module;
  std::optional<AnswerOutput> output;
  if (me.rank == 0) output.emplace(answer);
  const auto known = policy.read();
  const std::unique_ptr<SharedWork> work = open();
  SharedWorkFlags mine = flags;
  mine.part = base::concat(me.rank + 1, "/", me.size);
  if (!mine.resume.empty()) mine.resume += base::concat(".rank", me.rank);
  const comparison::PartOfWork part = run_share(*work, mine, true);

  const std::vector<std::string> texts = module.gathered(text_of(part));
  if (me.rank != 0) return 0;
  Gathered all;
  for (const std::string& text : texts) add_rank(text, part.comparison, all);
  const std::atomic<bool> stop{all.interrupted};
  if (all.interrupted) all.division = {};  // the report lists what is not measured
  work->run(&all.work, std::move(all.division), &stop);
  add_resume_hint(flags, *work);
  return output->write(policed(work->answer(), known));
}

std::optional<MpiRank> rank_of(const SharedWorkFlags& flags) {
  return flags.mpi == "off" ? std::nullopt : mpi_rank();
}

void require_part_for(const LocalFiles& local, const SharedWorkFlags& flags) {
  if (!local.given) return;
  if (rank_of(flags)) {
    throw base::usage_error(
        "--local-files is for --part: under mpirun every process must see the files of all; give "
        "--mpi off and --part I/N to the process of each machine");
  }
  if (flags.part.empty()) {
    throw base::usage_error("--local-files says what one of several machines has; give --part I/N");
  }
}

void require_whole_for(const PolicyFlags& policy, const SharedWorkFlags& flags) {
  if (flags.part.empty() || !policy.is_given()) return;
  throw base::usage_error(
      "--part judges a share, and --known, --require and --since are of the whole; give them to "
      "`ttrace report merge`");
}

void add_trace(const trace::Source& source, comparison::ComparisonId& id) {
  // Not the times: archives, object stores and `cp -p` make them equal for files that differ.
  const trace::Fingerprint print = source.fingerprint();
  id.facts.emplace_back(
      base::concat("the trace ", source.path()),
      base::render({"{bytes:byte} with checksums {manifest} and {content}",
                    {{"bytes", print.bytes},
                     {"manifest", print.manifest},
                     {"content", print.content.empty() ? "unknown" : print.content}}}));
}

void add_text(const std::string& file, comparison::ComparisonId& id) {
  if (file.empty()) return;
  const std::string text = base::read_text(file);
  id.facts.emplace_back(base::concat("the file ", file),
                        base::concat(text.size(), " bytes, with checksum ", base::fnv1a(text)));
}

}  // namespace ttrace::app
