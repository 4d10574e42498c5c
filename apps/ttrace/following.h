// A trace while its job writes it: which steps are finished, whether the job has begun anew, and
// whether all of it is written.
//
// A step is finished when the file of every rank that records has it: the collector puts a file in
// place anew after each step, with a manifest of its own that lists the steps in it
// (`run.recorded`, schemas/trace-v2.md). The trace is whole when its manifest.json is there, which
// the last rank writes when it closes, or when a single file names no rank as unfinished.
#pragma once

#include <cstdint>
#include <ctime>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "trace/manifest.h"
#include "trace/source.h"

namespace ttrace::app {

struct TraceState {
  bool began_anew = false;              // another run writes there than at the last look
  bool is_whole = false;                // the job has ended well
  std::vector<std::uint64_t> finished;  // steps, ascending
  std::string waits_for;                // why there is not more, for people
};

// Each look reads the files as they are then, and none stays open: the next look finds what has
// changed since.
class FollowedTrace {
 public:
  // Notes what lies at `path` already. A trace that is whole already belongs to an earlier run and
  // is ignored. Reads no HDF5, so that it may be called outside of a supervised process.
  explicit FollowedTrace(std::string path);

  TraceState look();
  // Whether a file has changed since the last look.
  bool has_changed() const;
  // Whether a file that was there at the last look is gone or another.
  bool was_replaced() const;
  // The trace up to a finished step. Throws an input error if it cannot be read, or not any more.
  std::unique_ptr<trace::Source> open(std::uint64_t step) const;

  const std::string& path() const { return path_; }

 private:
  // Tells a file from the one that stood there before, and from itself after a commit.
  struct FileState {
    std::uint64_t device = 0;
    std::uint64_t inode = 0;
    std::uint64_t size = 0;
    std::time_t seconds = 0;
    long nanoseconds = 0;

    bool operator==(const FileState&) const = default;
  };
  // The facts that a rank's file states.
  struct Part {
    FileState file;
    std::string run;  // its id
    bool records = true;
    std::set<std::uint64_t> steps;
    bool is_closed = false;
  };

  static std::optional<FileState> state_of(const std::string& file);
  bool is_single_file() const;
  std::string file_of(std::uint64_t rank) const;
  std::string manifest_file() const;
  std::vector<std::uint64_t> ranks_with_files() const;
  bool is_stale(const std::string& file, const FileState& state) const;
  trace::Manifest manifest_of(std::uint64_t rank) const;
  std::optional<Part> read_part(std::uint64_t rank, const FileState& state);
  void read_parts(TraceState& state);
  void forget_parts_but(const std::set<std::uint64_t>& fresh, const std::set<std::string>& begun);
  void read_whole(TraceState& state);
  std::vector<std::uint64_t> ranks_of_other_run() const;
  void find_finished(TraceState& state) const;

  std::string path_;
  // Files of earlier runs, which those of this one will replace.
  std::map<std::string, FileState> stale_;
  std::set<std::string> earlier_runs_;  // ids
  std::vector<std::uint64_t> mesh_;     // its ranks; empty as long as no file says them
  std::map<std::uint64_t, Part> parts_;
  std::string problem_;                // why a file could not be read at the last look, or empty
  std::optional<FileState> manifest_;  // of the manifest.json of the whole trace
  std::vector<std::uint64_t> steps_of_whole_;
};

}  // namespace ttrace::app
