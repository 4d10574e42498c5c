// What changed from one step of a run to the next, in the words of `ttrace report diff`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "report/nights/night.h"

namespace ttrace::report {

class StepChanges {
 public:
  // `answer`: that for the step. Returns "31 newly diverged, 2 worse since step 2", or
  // empty for the first.
  std::string add(std::uint64_t step, const answer::Answer& answer);

 private:
  std::optional<Night> before_;
};

}  // namespace ttrace::report
