// Which tensors a person selects, by flags that all commands share and by rules of a file.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "judge/calibration.h"
#include "trace/key.h"

namespace ttrace::comparison {

struct Selection {
  std::vector<std::string> only;  // globs over names; none: all
  std::vector<std::string> skip;
  std::vector<trace::Kind> kinds;  // none: all
  std::vector<std::uint64_t> steps;
  // Rules of a tolerance file, for commands without a reference: a tensor whose first matching rule
  // skips it is not selected. Rules whose last day is over are no longer among them.
  judge::Policy rules = {};

  bool selects(const trace::TensorKey& key) const;
  bool selects_all() const;
};

// Throws a usage error, with the nearest names, if a pattern, kind or step matches none of `keys`:
// a check of nothing would pass silently.
void require_matches(const Selection& selection, const std::vector<trace::TensorKey>& keys);

}  // namespace ttrace::comparison
