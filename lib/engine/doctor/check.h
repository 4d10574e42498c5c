// A check of `ttrace doctor`: a function from the runs to what it found. Each is one line of the
// table in examine.cpp.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "comparison/result.h"
#include "engine/doctor/examine.h"
#include "trace/source.h"

namespace ttrace::engine::doctor {

struct Runs {
  const trace::Source& reference;
  const trace::Source& candidate;
  const std::vector<const trace::Source*>& noise;
  const DoctorOptions& options;
  // The comparison of what the first step begins with; or why there is none.
  std::optional<comparison::CompareReport> start;
  std::string no_start;
};

struct Found {
  Health health = Health::kFine;
  std::string text;
};

// Nothing where the check does not apply.
using Check = std::optional<Found> (*)(const Runs& runs);

}  // namespace ttrace::engine::doctor
