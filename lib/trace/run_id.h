// The id of a run (`run.id`), which every file of the run carries, so that the file of another run,
// left on a disk or copied to the wrong place, is noticed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ttrace::trace {

// How the run that a file says it is of fits the run that is read.
enum class RunFit {
  kSame,    // also where the id of the run is not known
  kUnsaid,  // the file says nothing that tells its run from others
  kOther
};

// `said`: the id in the file of `rank`, or empty. `expected`: that of the run, or empty.
//
// Ranks that share no store draw an id each, 32 hexadecimal digits, "@" and the number of the rank.
// The manifest has that of the lowest rank: the ids of the others differ from it, and fit none.
RunFit fit_of(std::string_view said, std::uint64_t rank, std::string_view expected);

// The `run.id` of a manifest's text, which is read no further than to there. Nothing if it has
// none, or if the text before it is no JSON.
std::optional<std::string> run_id_within(std::string_view manifest);

}  // namespace ttrace::trace
