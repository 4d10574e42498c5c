// The story of `ttrace doctor REF RUN`: can these two runs be compared, and will the answer mean
// something? Most of what spoils a comparison shows before all numbers are read.
#pragma once

#include <string>
#include <vector>

#include "measure/backend.h"
#include "trace/source.h"

namespace ttrace::engine {

enum class Health {
  kFine,
  kNote,   // worth knowing; the answer stays good
  kWrong,  // the answer would be about this problem, or there would be no answer
};

struct Diagnosis {
  std::string name;  // of the check: "weights"
  Health health = Health::kFine;
  std::string text;  // what was found, and the way out where it is wrong
};

struct DoctorOptions {
  measure::ExecutionContext execution;
  // Sentences about files that lie beside those of the runs and belong to none.
  std::vector<std::string> strays;
};

// One entry for each check that applies, always in the same order. Reads at most some hundred MB,
// of larger models only some parameters. Throws nothing for problems of the runs.
std::vector<Diagnosis> examine(const trace::Source& reference, const trace::Source& candidate,
                               const std::vector<const trace::Source*>& noise,
                               const DoctorOptions& options);

// Returns the failed checks among those that read no values, to explain why nothing could be
// compared. `strays` as in DoctorOptions. `of_files_alone`: only whether every rank has its file.
std::vector<Diagnosis> obstacles(const trace::Source& reference, const trace::Source& candidate,
                                 std::vector<std::string> strays, bool of_files_alone);

}  // namespace ttrace::engine
