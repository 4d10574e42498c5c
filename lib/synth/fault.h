// Faults to be planted into a synthetic trace, in the words of schemas/selftest-v1.md where the
// fault is one of those, and what a tensor gets of them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "synth/recipe.h"

namespace ttrace::synth {

struct PlantedFault {
  enum class Kind {
    kScaled,         // all of it times a number
    kShardsSwapped,  // two shards of equal shape in each other's place, all copies of them
    kPartDropped,    // of a sum or mean over an axis: the last coordinate's part is 0
    kRowZeroed,      // one index of dimension 0
    kStale,          // the value of another step or micro-batch
    kRoundedToBf16,  // one rounding
    kNan,            // one element, the middle one
    kRankMissing,    // that rank has no file
    kKeyMissing,     // the trace knows nothing of the tensor
  };

  Kind kind = Kind::kScaled;
  std::optional<double> number;        // factor, row or rank
  std::optional<trace::Kind> of_kind;  // of any kind
  std::string name;                    // of the tensor
  std::string text;                    // as it was given

  bool concerns(const trace::TensorKey& key) const;
};

// "scaled=1.01@fc.weight", "row_zeroed@main_grad/fc.weight", "rank_missing=3". Throws a usage
// error.
PlantedFault parse_fault(std::string_view text);

// Throws a usage error if a fault concerns no tensor or rank of the trace, or one that cannot have
// it: an integer that is scaled, a tensor without two shards of equal shape, ...
void check_faults(const Recipe& recipe, const std::vector<PlantedFault>& faults);

// All faults of one tensor.
struct TensorFaults {
  double factor = 1;
  std::vector<std::uint64_t> zeroed_rows;
  bool stale = false;
  bool rounded = false;
  bool nan = false;
  bool swapped = false;
  bool dropped = false;
  bool missing = false;
};

TensorFaults faults_of(const trace::TensorEntry& entry, const std::vector<PlantedFault>& faults);

}  // namespace ttrace::synth
