// Work that several processes share (--part, mpirun), or that goes on where an earlier process
// stopped (--resume): a comparison, an audit or a localization. This file knows no difference.
#pragma once

#include <CLI/CLI.hpp>
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "answer_output.h"
#include "comparison/checkpoint/checkpoint.h"
#include "comparison/division.h"
#include "flags/policy.h"
#include "local_files.h"
#include "mpi_ranks.h"
#include "trace/source.h"

namespace ttrace::app {

struct SharedWorkFlags {
  std::string resume;  // a file, or empty
  std::string part;    // "2/8", or empty
  std::string mpi = "auto";

  // `does`: "compare", "audit", "localize". --local-files is of the traces too: `local`.
  void add_to(CLI::App& command, const std::string& does, LocalFiles& local);
};

// A comparison, an audit or a localization, with its inputs open.
class SharedWork {
 public:
  SharedWork() = default;
  SharedWork(const SharedWork&) = delete;
  SharedWork& operator=(const SharedWork&) = delete;
  virtual ~SharedWork() = default;

  // What was requested, and the current state of the files.
  virtual comparison::ComparisonId id() const = 0;
  // Every rank file that is here, and what it is.
  virtual std::map<std::string, std::string> files_here() const = 0;
  // Makes the report of all, or of the part that `division` names. Does not measure again what
  // `work` has. Once `stop` is true, the report may end with what is known; may be null.
  virtual void run(comparison::Checkpoint* work, comparison::WorkDivision division,
                   const std::atomic<bool>* stop) = 0;

  // Whether the report was interrupted.
  virtual bool interrupted() const = 0;
  virtual void add_to_why(const std::string& text) = 0;
  virtual void set_part(comparison::PartOfWork part) = 0;
  virtual GivenAnswer answer() const = 0;
};

// Runs all of the work, or the share that the flags select. SIGINT and SIGTERM end it early with a
// report of what is known; a second signal ends the process at once. `for_merge`: with --part,
// includes in the report what a merge needs, which is returned.
comparison::PartOfWork run_share(SharedWork& work, const SharedWorkFlags& flags, bool for_merge);

// Runs the work as one of the processes that mpirun has started. Measures this rank's share; rank 0
// then reports on all shares and returns the exit code of the verdict, the other ranks return 0. If
// a rank throws, the job ends. `open` is called once the output files are open.
int run_as_rank(const MpiRank& me, const SharedWorkFlags& flags, const AnswerFlags& answer,
                const PolicyFlags& policy,
                const std::function<std::unique_ptr<SharedWork>()>& open);

// The rank, unless the flags say that this is one process.
std::optional<MpiRank> rank_of(const SharedWorkFlags& flags);

// --local-files says what a part has: throws a usage error without --part, and under mpirun.
void require_part_for(const LocalFiles& local, const SharedWorkFlags& flags);

// --known, --require and --since need the whole answer. Throws a usage error beside --part.
void require_whole_for(const PolicyFlags& policy, const SharedWorkFlags& flags);

// Adds facts to an id: the current state of a trace, or of a text file. `file` may be empty.
void add_trace(const trace::Source& source, comparison::ComparisonId& id);
void add_text(const std::string& file, comparison::ComparisonId& id);

}  // namespace ttrace::app
